"""One call of a service: the request as it is sent, and the answer as it is passed on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from starlette.types import Receive

from agent_common.errors import ToolFailure
from agent_common.net import ByteStream, HttpExchange, Url, has_dot_segments, resolve_location

from ..errors import RequestError
from .catalog import Service
from .connection import ServiceConnector, as_service_failure
from .credentials import Applied, Credentials, header_of
from .errors import ServiceFailed
from .headers import RawHeaders, answer_headers, request_headers
from .redaction import StreamRedactor

MAX_SENT = 32 * 1024 * 1024
MAX_ANSWERED = 64 * 1024 * 1024
"""Bytes of a body in each direction."""
_NO_BODY = frozenset((204, 205, 304))
_REDIRECTS = frozenset((301, 302, 303, 307, 308))
_UNENCODED = ("", "identity")


class CallerGone(Exception):
    """The agent has disconnected while it sent its body."""


@dataclass(frozen=True, slots=True)
class ServiceRequest:
    """A checked request."""

    service: Service
    method: str
    path: bytes
    """As the agent has written it, with a slash before it."""
    query: bytes
    headers: RawHeaders

    @property
    def url(self) -> Url:
        """Its URL without the credential."""
        base = self.service.base_url
        query = f"?{self.query.decode('ascii')}" if self.query else ""
        return Url(base.scheme, base.host, base.port, self.service.base_path + self.path.decode("ascii") + query)

    @property
    def declared(self) -> int | None:
        """The length of its body; None if that is not said."""
        given = next((value for name, value in self.headers if name == b"content-length"), None)
        return int(given) if given is not None and given.isdigit() else None

    @property
    def is_chunked(self) -> bool:
        return any(name == b"transfer-encoding" for name, _ in self.headers)

    def head(self, applied: Applied) -> bytes:
        """Return the head of the request to the service."""
        base = self.service.base_url
        query = b"&".join(filter(None, (self.query, applied.query)))
        target = self.service.base_path.encode("ascii") + self.path + (b"?" + query if query else b"")
        own = [(b"host", base.authority.encode("ascii")), (b"connection", b"close"), (b"accept-encoding", b"identity")]
        if self.is_chunked:
            own.append((b"transfer-encoding", b"chunked"))
        elif self.declared is not None:
            own.append((b"content-length", b"%d" % self.declared))
        added = [applied.header] if applied.header is not None else []
        fields = [*own, *request_headers(self.headers, header_of(self.service)), *added]
        lines = b"".join(b"%b: %b\r\n" % field for field in fields)
        return b"%b %b HTTP/1.1\r\n%b\r\n" % (self.method.encode("ascii"), target, lines)


class ServiceAnswer:
    """An answer without the secret."""

    def __init__(self, request: ServiceRequest, applied: Applied, exchange: HttpExchange) -> None:
        self._request = request
        self._applied = applied
        self._exchange = exchange
        self.status = exchange.status
        self.received = 0
        """Bytes of the body so far."""

    def headers(self) -> RawHeaders:
        """Return the headers to pass on. Raises ServiceFailed for a redirect to elsewhere, and for an encoded body."""
        given = dict(self._exchange.headers)
        redact = self._applied.hidden.redact
        is_encoded = given.get("content-encoding", "").strip().lower() not in _UNENCODED
        if is_encoded or given.get("transfer-encoding", "chunked").strip().lower() != "chunked":
            text = f"{self._request.service.name} has encoded its answer, although that was not asked for"
            raise ServiceFailed(text, code="answer_encoded")
        if self.status in _REDIRECTS and "location" in given:
            given["location"] = self._own_location(given["location"])
        elif "location" in given and self.status != 201:
            del given["location"]
        kept = [(name, redact(value)) for name, value in answer_headers(given) if redact(name) == name]
        return [*kept, (b"x-mesh-service", self._request.service.name.encode("ascii"))]

    async def body(self) -> AsyncIterator[bytes]:
        """Yield the body as it comes. Raises ServiceFailed if it breaks off or is too long."""
        if self._request.method == "HEAD" or self.status in _NO_BODY:
            return
        stream = StreamRedactor(self._applied.hidden)
        with as_service_failure(self._request.service.base_url):
            async for piece in self._exchange.read():
                self.received += len(piece)
                if self.received > MAX_ANSWERED:
                    text = f"{self._request.service.name} answered more than {MAX_ANSWERED} bytes"
                    raise ServiceFailed(text, code="answer_too_large")
                if passed := stream.feed(piece):
                    yield passed
        if rest := stream.finish():
            yield rest

    def _own_location(self, location: str) -> str:
        """Return where a redirect leads, as a path of the host. No error quotes it: the secret may be in it."""
        service = self._request.service
        try:
            target = resolve_location(self._request.url, location)
        except ToolFailure:
            target = None
        if target is None or target.origin != service.base_url.origin or not _is_below(target, service):
            raise ServiceFailed(f"{service.name} redirects to another host or path", code="redirect_refused")
        return f"/services/{service.name}{target.target.removeprefix(service.base_path)}"


class ServiceCaller:
    """Makes calls."""

    def __init__(self, connector: ServiceConnector, credentials: Credentials) -> None:
        self._connector = connector
        self._credentials = credentials

    async def apply(self, service: Service) -> Applied:
        """Return the credential of a service. Raises SecretUnavailable and ServiceFailed."""
        return await self._credentials.apply(service)

    def open(self, service: Service) -> AbstractAsyncContextManager[ByteStream]:
        """Open a connection to a service. Raises ServiceFailed."""
        return self._connector.open(service.base_url, private=service.private)

    async def send(
        self, request: ServiceRequest, applied: Applied, stream: ByteStream, receive: Receive
    ) -> ServiceAnswer:
        """Send the request with its body, and wait for the head of the answer.

        Raises ServiceFailed, RequestError if the body is too long, and CallerGone."""
        service = request.service
        exchange = HttpExchange(stream, service.base_url.host, service.timeout)
        with as_service_failure(service.base_url):
            stream.writer.write(request.head(applied))
            if request.is_chunked or request.declared:
                await _send_body(request, stream, receive)
            await exchange.send(b"")
        if exchange.status == 401:
            self._credentials.refused(service)
        return ServiceAnswer(request, applied, exchange)


async def _send_body(request: ServiceRequest, stream: ByteStream, receive: Receive) -> None:
    sent = 0
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise CallerGone
        piece = message.get("body", b"")
        more = message.get("more_body", False)
        sent += len(piece)
        if sent > MAX_SENT:
            raise body_too_large()
        if request.is_chunked:
            piece = (b"%x\r\n%b\r\n" % (len(piece), piece) if piece else b"") + (b"" if more else b"0\r\n\r\n")
        stream.writer.write(piece)
        try:
            async with asyncio.timeout(request.service.timeout):
                await stream.writer.drain()
        except TimeoutError as error:
            text = f"{request.service.name} does not read the body"
            raise ServiceFailed(text, code="service_timeout") from error


def body_too_large() -> RequestError:
    error = RequestError(f"the body has more than {MAX_SENT} bytes", code="body_too_large")
    error.status = 413
    return error


def _is_below(target: Url, service: Service) -> bool:
    path = target.target.partition("?")[0]
    return path.startswith(f"{service.base_path}/") and not has_dot_segments(path)
