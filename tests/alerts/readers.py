"""Those who are told, for tests: a real webhook receiver and a real SMTP server on this machine."""

from __future__ import annotations

import email
import email.policy
import threading
import time
from collections.abc import Callable
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session

from tests.running import free_port

WAIT_SECONDS = 30


def wait_until(is_so: Callable[[], bool], *, seconds: float = WAIT_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "it never came about"
        time.sleep(0.05)


class Call(NamedTuple):
    """A request that the receiver got. Header names are in lower case."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]


class Receiver:
    """Takes webhooks and keeps them. `answer` says what to answer to each call."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.answer: Callable[[BaseHTTPRequestHandler], object] = say(204)
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                receiver.calls.append(Call(self.path, headers, body))
                receiver.answer(self)

            def log_message(self, *args: Any) -> None:
                """Quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook/secret-path"

    def ids(self) -> list[str]:
        """Whom a reader that honours the id has heard: each once, in order of arrival."""
        return list(dict.fromkeys(call.id for call in self.calls))

    def __enter__(self) -> Self:
        serve = self._server.serve_forever
        threading.Thread(target=serve, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def say(status: int, text: str = "", **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    """An answer of the receiver; `__` in a header's name stands for a hyphen."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("__", "-"), value)
        handler.send_header("Content-Length", str(len(text.encode())))
        handler.end_headers()
        handler.wfile.write(text.encode())

    return answer


class Mailbox:
    """Takes mail and keeps it. `answer` says what SMTP answers to each message's content."""

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []
        self.answer = "250 taken"
        self.refuse_recipient = ""  # an answer to RCPT TO, if any
        self.before_answer: Callable[[], object] = lambda: None
        self.host, self.port = "127.0.0.1", free_port()
        self._controller = Controller(self, hostname=self.host, port=self.port)

    # --- what aiosmtpd asks ---

    async def handle_RCPT(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: Any
    ) -> str:
        if self.refuse_recipient:
            return self.refuse_recipient
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        assert isinstance(envelope.content, bytes)
        if self.answer.startswith("2"):
            mail = email.message_from_bytes(envelope.content, policy=email.policy.default)
            assert isinstance(mail, EmailMessage)
            self.mails.append(mail)
        self.before_answer()
        return self.answer

    # --- for tests ---

    def ids(self) -> list[str]:
        """Whom a reader that honours the Message-ID has heard: each once."""
        return list(dict.fromkeys(str(mail["Message-ID"]) for mail in self.mails))

    def __enter__(self) -> Self:
        self._controller.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._controller.stop()
