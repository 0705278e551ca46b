"""The only way out to addresses that people type in.

Such an address could name a machine that only we can reach: a database, a router, a cloud's
metadata service. So the name is looked up once, every address it stands for is checked, and the
connection goes to those very addresses, while TLS and the Host header go by the name. Redirects are
answers like others, and one time limit holds from the look-up to the last byte that we read.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import NamedTuple

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from django.conf import settings
from yarl import URL

from tracebudget.alerts.errors import DeliveryError

Address = IPv4Address | IPv6Address

MAX_ANSWER_BYTES = 1024  # for the delivery log; nobody needs more of a page that says "no"
MAX_HEADER_BYTES = 8192
MAX_RETRY_AFTER = 3600  # a longer wait that somebody asks for is not heard

NAT64 = ip_network("64:ff9b::/96")  # in networks without IPv4 public names stand for these
# Not for everyone, though `ipaddress` (of some versions) calls them global.
NOT_PUBLIC = tuple(
    map(
        ip_network,
        (
            "192.0.0.0/24",  # protocol assignments: a cloud keeps its metadata service there
            "168.63.129.16/32",  # another cloud's
            "::/96",  # IPv4 inside IPv6, in ways that nobody uses any more but to get in
            "2001::/32",  # Teredo
            "2002::/16",  # 6to4
            "64:ff9b:1::/48",  # NAT64 of the local network
            "fec0::/10",  # site-local
        ),
    )
)


class Answer(NamedTuple):
    """What the other side said: status, the beginning of its body, and its Retry-After if any."""

    status: int
    text: str
    retry_after: int | None


def post(url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
    """POST to an address that somebody typed in. DeliveryError where no answer came."""
    try:
        return asyncio.run(_post_in_time(URL(url), body, headers))
    except TimeoutError:
        raise DeliveryError(f"No answer within {settings.DELIVERY_SECONDS} s.") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise DeliveryError(f"{type(error).__name__}: {error}") from error


async def _post_in_time(url: URL, body: bytes, headers: Mapping[str, str]) -> Answer:
    async with asyncio.timeout(settings.DELIVERY_SECONDS):
        addresses = await _look_up(url)
        require_allowed(url, addresses)
        connector = aiohttp.TCPConnector(resolver=_Settled(addresses), force_close=True)
        session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            max_line_size=MAX_HEADER_BYTES,
            max_field_size=MAX_HEADER_BYTES,
        )
        async with (
            session,
            session.post(url, data=body, headers=headers, allow_redirects=False) as response,
        ):
            beginning = await _read(response.content)
            return Answer(response.status, _readable(beginning), _retry_after(response.headers))


async def _look_up(url: URL) -> list[Address]:
    host, port = url.raw_host, url.port
    if not host or not port or url.scheme not in {"http", "https"}:
        raise DeliveryError("The address is no http or https URL.", is_permanent=True)
    try:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise DeliveryError(f"The name {host} has no address: {error}") from error
    return [ip_address(str(sockaddr[0]).partition("%")[0]) for *_, sockaddr in found]


def require_allowed(url: URL, addresses: list[Address]) -> None:
    """DeliveryError if any of the addresses is not to be called from here."""
    if all(_is_opened(address) for address in addresses):
        return
    for address in addresses:
        if not (_is_opened(address) or is_public(address)):
            raise DeliveryError(
                f"{url.raw_host} stands for {address}, and that is no public address. "
                "TRACEBUDGET_WEBHOOK_NETWORKS can allow it.",
                is_permanent=True,
            )
    if url.scheme != "https":
        raise DeliveryError(
            "Outside networks of TRACEBUDGET_WEBHOOK_NETWORKS only https:// is called.",
            is_permanent=True,
        )


def _is_opened(address: Address) -> bool:
    """Whether the operator allows it by name."""
    return any(address in network for network in settings.WEBHOOK_NETWORKS)


def is_public(address: Address) -> bool:
    """Whether an address belongs to the internet at large, whatever it is wrapped in."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return is_public(address.ipv4_mapped)
        if address in NAT64:
            return is_public(IPv4Address(address.packed[-4:]))
    is_special = address.is_multicast or address.is_reserved or address.is_unspecified
    return (
        address.is_global
        and not is_special
        and not any(address in network for network in NOT_PUBLIC)
    )


class _Settled(AbstractResolver):
    """A look-up that has been done: whoever asks again gets the addresses that were checked."""

    def __init__(self, addresses: list[Address]) -> None:
        self._addresses = addresses

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host,
                host=str(address),
                port=port,
                family=socket.AF_INET6 if isinstance(address, IPv6Address) else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in self._addresses
        ]

    async def close(self) -> None:
        """Nothing is held."""


async def _read(content: aiohttp.StreamReader) -> bytes:
    """The beginning of an answer; the rest stays unread in the network."""
    beginning = b""
    while len(beginning) < MAX_ANSWER_BYTES:
        chunk = await content.read(MAX_ANSWER_BYTES - len(beginning))
        if not chunk:
            break
        beginning += chunk
    return beginning


def _readable(answer: bytes) -> str:
    text = answer.decode("utf-8", "replace")
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _retry_after(headers: Mapping[str, str]) -> int | None:
    """Seconds; the form with a date is rare, and our own pauses do as well."""
    text = headers.get("Retry-After", "")
    return min(int(text), MAX_RETRY_AFTER) if text.isascii() and text.isdigit() else None
