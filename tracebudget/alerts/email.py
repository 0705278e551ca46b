"""Mail, by the SMTP server that the operator names."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from smtplib import (
    SMTPAuthenticationError,
    SMTPException,
    SMTPRecipientsRefused,
    SMTPResponseException,
)
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.mail import EmailMultiAlternatives, get_connection

from tracebudget.alerts.errors import DeliveryError
from tracebudget.alerts.message import Message

BACKEND = "django.core.mail.backends.smtp.EmailBackend"
PERMANENT = 5  # the first digit of what SMTP says when a repeat would not help


def is_set_up() -> bool:
    return bool(settings.EMAIL_HOST)


def send(config: Mapping[str, Any], message: Message, *, now: datetime) -> str:
    """Hand the message to the server. Raises DeliveryError."""
    if not is_set_up():
        raise DeliveryError(
            "No mail server is set: TRACEBUDGET_SMTP_HOST names it.", is_permanent=True
        )
    server = get_connection(BACKEND)
    mail = EmailMultiAlternatives(
        subject=message.subject,
        body=message.text,
        to=[config["address"]],
        headers=_headers(message),
        connection=server,
    )
    mail.attach_alternative(message.html, "text/html")
    try:
        mail.send()
    except (SMTPException, OSError, ValueError) as error:
        raise _delivery_error(error) from error
    finally:
        server.close()  # open still, if it was the sign-in that failed
    return f"taken by {settings.EMAIL_HOST}"


def _headers(message: Message) -> dict[str, str]:
    """The Message-ID stays the same with every try: a mail system drops the second of two."""
    host = urlsplit(settings.URL).hostname
    return {
        "Message-ID": f"<{message.id}@{host}>",
        "References": f"<{message.thread}@{host}>",
        "Auto-Submitted": "auto-generated",  # RFC 3834: no out-of-office answers, please
    }


def _delivery_error(error: Exception) -> DeliveryError:
    if isinstance(error, SMTPRecipientsRefused):
        answers = list(error.recipients.values())
        codes, text = [code for code, _ in answers], "; ".join(map(_say, answers))
        return DeliveryError(text, is_permanent=all(c // 100 == PERMANENT for c in codes))
    if isinstance(error, SMTPResponseException):
        # Our own sign-in is the operator's to mend, and then the mail should go.
        is_ours = isinstance(error, SMTPAuthenticationError)
        is_permanent = error.smtp_code // 100 == PERMANENT and not is_ours
        return DeliveryError(_say((error.smtp_code, error.smtp_error)), is_permanent=is_permanent)
    return DeliveryError(f"{type(error).__name__}: {error}")


def _say(answer: tuple[int, bytes | str]) -> str:
    code, text = answer
    return f"SMTP {code} {text.decode(errors='replace') if isinstance(text, bytes) else text}"
