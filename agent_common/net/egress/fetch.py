"""Fetch web pages for an agent. Every request and redirect is checked, and all answers are limited in size and time."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from ...errors import ToolFailure
from ..client.tls import public_tls
from .content_encoding import ACCEPTED, DecodedBody
from .http_request import HttpExchange
from .upstream import ByteCounter, ByteStream, DirectUpstream, ProxyUpstream, Upstream, upgrade_to_tls
from .urls import Url, clip, parse_url, resolve_location

MiB = 1024 * 1024
REDIRECTS = frozenset({301, 302, 303, 307, 308})
_HARMLESS = frozenset({"accept", "accept-language", "user-agent"})
"""Headers that are also sent to another origin after a redirect. Any other header may be a credential."""
_OURS = frozenset({"host", "connection", "accept-encoding", "content-length", "transfer-encoding", "upgrade"})
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e]*")

UrlCheck = Callable[[str], Awaitable[str | None]]
"""Called with each URL before it is fetched, including redirects. Returns the reason to refuse it, or None."""


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """Limits of one fetch."""

    seconds: float = 20.0
    """Longest time from the first look-up to the last byte, including redirects."""
    idle_seconds: float = 10.0
    """Longest time without a byte."""
    wire_bytes: int = 10 * MiB
    """Most bytes of the body as received."""
    body_bytes: int = 10 * MiB
    """Most bytes of the decompressed body."""
    redirects: int = 5


@dataclass(frozen=True, slots=True)
class FetchedPage:
    """An answer, with any status."""

    url: str
    """The URL after all redirects."""
    status: int
    headers: Mapping[str, str]
    """Headers, with lower-case names."""
    body: bytes
    """Unpacked."""
    truncated: bool
    """Whether the body was longer than the limits."""


@dataclass(frozen=True, slots=True)
class WebClient:
    """The client for all web pages that the model requests. It has no cookies, caches or keep-alive connections."""

    upstream: Upstream = field(default_factory=DirectUpstream)
    bounds: FetchLimits = field(default_factory=FetchLimits)
    tls: Callable[[], ssl.SSLContext] = public_tls

    @classmethod
    def via_proxy(cls, proxy: str | None, token: str | None = None) -> WebClient:
        """Return a client that uses the forward proxy at this URL with the token. With None it connects directly."""
        return cls(ProxyUpstream(proxy, token) if proxy else DirectUpstream())

    async def fetch(
        self,
        url: str,
        headers: Mapping[str, str] | None = None,
        check_url: UrlCheck | None = None,
        count_sent: ByteCounter | None = None,
    ) -> FetchedPage:
        """Fetch a page with GET. Raises ToolFailure if it may not be fetched or fails.

        `headers` that may be credentials are not sent to another origin. `check_url` may refuse each URL. `count_sent`
        is called with the size of each request before it is sent.
        """
        fields = _validate_headers(headers or {})
        at = parse_url(url)
        deadline = asyncio.timeout(self.bounds.seconds)
        try:
            async with deadline:
                return await self._follow(at, fields, check_url, count_sent)
        except TimeoutError as error:
            if not deadline.expired():
                raise
            text = f"{clip(url)} did not come within {self.bounds.seconds:g} s"
            raise ToolFailure(text, kind="timeout") from error

    async def _follow(
        self, url: Url, headers: Mapping[str, str], check_url: UrlCheck | None, count_sent: ByteCounter | None
    ) -> FetchedPage:
        for _ in range(self.bounds.redirects + 1):
            refusal = await check_url(str(url)) if check_url else None
            if refusal is not None:
                raise ToolFailure(refusal, kind="denied")
            if count_sent is not None:
                count_sent(len(_request(url, headers)))
            found = await self._get(url, headers)
            if not isinstance(found, Url):
                return found
            if url.scheme == "https" and found.scheme == "http":
                insecure = f"{clip(str(url))} leads from https to {clip(str(found))}"
                raise ToolFailure(f"{insecure}; fetch that itself if it need not be secure", kind="denied")
            if found.origin != url.origin:
                headers = {name: value for name, value in headers.items() if name in _HARMLESS}
            url = found
        raise ToolFailure(f"{clip(str(url))} is the end of more than {self.bounds.redirects} redirects")

    async def _get(self, url: Url, headers: Mapping[str, str]) -> FetchedPage | Url:
        """Send one request, and return the page, or the URL of a redirect."""
        stream = await self.upstream.open(url.host, url.port)
        try:
            if url.scheme == "https":
                stream = await upgrade_to_tls(stream, url.host, await asyncio.to_thread(self.tls))
            return await self._exchange(url, headers, stream)
        finally:
            stream.close()

    async def _exchange(self, url: Url, headers: Mapping[str, str], stream: ByteStream) -> FetchedPage | Url:
        exchange = HttpExchange(stream, url.host, self.bounds.idle_seconds)
        await exchange.send(_request(url, headers))
        location = exchange.headers.get("location")
        if exchange.status in REDIRECTS and location is not None:
            return resolve_location(url, location)
        body = await self._body(exchange)
        return FetchedPage(str(url), exchange.status, exchange.headers, bytes(body.data), body.truncated)

    async def _body(self, exchange: HttpExchange) -> DecodedBody:
        body = DecodedBody(exchange.headers.get("content-encoding", ""), self.bounds.body_bytes)
        wire = 0
        async for piece in exchange.read():
            wire += len(piece)
            body.feed(piece)
            body.truncated = body.truncated or wire > self.bounds.wire_bytes
            if body.truncated:
                return body
        body.finish()
        return body


def _request(url: Url, headers: Mapping[str, str]) -> bytes:
    fields = {
        "host": url.authority,
        "user-agent": "agent-runtime",
        "accept": "*/*",
        **headers,
        "accept-encoding": ACCEPTED,
        "connection": "close",
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"GET {url.target} HTTP/1.1\r\n{lines}\r\n".encode("ascii")


def _validate_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers with lower-case names. Raises ToolFailure if one contains characters that end a header."""
    fields = {name.lower(): value for name, value in headers.items()}
    for name, value in fields.items():
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value) or name in _OURS:
            raise ToolFailure(f"header {name[:50]!r} cannot be sent", kind="invalid")
    return fields
