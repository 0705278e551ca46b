"""Spreads long-lived connections over the processes of a port.

The kernel gives a new connection to any process that listens, busy or not, and exporters keep the
few that they have for ever: four connections may well end up in one of two processes. So each
process closes a connection after every so many answers. The busier it is, the more it gives away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

# Measured with 2 processes and 4 connections: shares of 300 : 100, and at times 400 : 0, become
# 220 : 180. A new connection costs a round trip.
ANSWERS_BETWEEN = 16


def spread(application: Application) -> Application:
    """The application, asking now and then to be called over a new connection."""
    answers = count(1)

    def spreading(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        def start(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
            # HTTP/2 has no such header.
            if next(answers) % ANSWERS_BETWEEN == 0 and "/1" in environ["SERVER_PROTOCOL"]:
                headers.append(("Connection", "close"))
            return start_response(status, headers, *more)

        return application(environ, start)

    return spreading
