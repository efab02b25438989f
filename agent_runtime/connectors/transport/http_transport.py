"""HTTP to a configured server, and to no other host: with limits, over the runtime's own upstream connections.

Imported only when a remote server is used, because it needs packages that load slowly.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, cast

import anyio
import httpcore2
import httpx2

from agent_common.json_reader import JsonRefused, read_json, run_by_size
from agent_common.net import (
    ANY_ADDRESS,
    ByteStream,
    DirectUpstream,
    Endpoint,
    Inflater,
    ProxyUpstream,
    Upstream,
    canonical_host,
    open_endpoint,
    public_tls,
)

from ...errors import ToolFailure
from ..rate_limit import JSON_LIMITS, MESSAGE_LIMIT, LimitExceeded, MessageRateLimiter, check_nodes
from .event_limits import EventCheck
from .incoming import count_requests
from .mended_messages import LineBuffer, mend_events, mend_message
from .refusals import (
    REFUSAL_STATUSES,
    UNKNOWN_SESSION,
    UNKNOWN_SESSION_CODE,
    error_body,
    explain_status,
    is_session_unknown,
    refusal_reason,
)

if TYPE_CHECKING:
    from .connection_state import ConnectionState

CONNECT_SECONDS = 10.0
READ_SECONDS = 300.0
"""Longest time without a byte while a call or a stream of notifications is open."""
CLOSE_SECONDS = 2.0
MAX_CONNECTIONS = 20
SESSION_HEADER = "mcp-session-id"
EVENT_STREAM = "text/event-stream"


class Route:
    """The route to a server: through the operator's forward proxy, or directly if the server is on this machine.

    `mesh`: the endpoint of the agent's host, to which all connections go.
    """

    def __init__(
        self, egress_url: str | None = None, token: str | None = None, *, mesh: Endpoint | None = None
    ) -> None:
        self._direct = DirectUpstream(ANY_ADDRESS)
        self._proxy = ProxyUpstream(egress_url, token, ANY_ADDRESS) if egress_url else None
        self._mesh = mesh

    async def open(self, host: str, port: int) -> ByteStream:
        """Connect to a host. Raises ToolFailure."""
        if self._mesh is not None:
            try:
                return ByteStream(*await open_endpoint(self._mesh))
            except OSError as error:
                raise ToolFailure(
                    f"the host cannot be reached: {error.strerror or error}", kind="unavailable"
                ) from error
        name = canonical_host(f"[{host}]" if ":" in host else host)
        upstream: Upstream = self._direct if self._proxy is None or _is_loopback(name) else self._proxy
        return await upstream.open(name, port)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class BoundedTransport(httpx2.AsyncBaseTransport):
    """Sends requests, and reports to `connection_state` when the server no longer knows the session.

    `credentials`: whether any are configured, for the explanation of refusals; None passes refusals on unchanged.
    """

    def __init__(
        self, route: Route, connection_state: ConnectionState | None = None, *, credentials: bool | None = None
    ) -> None:
        self._connection_state, self._credentials = connection_state, credentials
        self._limiter = MessageRateLimiter()
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=public_tls(), max_connections=MAX_CONNECTIONS, network_backend=_Backend(route)
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.method == "DELETE":  # ends the session; not worth a long wait
            request.extensions["timeout"] = dict.fromkeys(("connect", "read", "write", "pool"), CLOSE_SECONDS)
        if request.method == "GET":
            await self._limiter.throttle_stream()
        request.headers["accept-encoding"] = "identity"
        answer = await self._send(request)
        if answer.status_code in REFUSAL_STATUSES and self._credentials is not None:
            return await _with_reason(answer, credentials=self._credentials)
        if answer.status_code >= 400 and request.method == "POST" and self._connection_state is not None:
            return await self._explained(request, answer, self._connection_state)
        return answer

    async def _explained(
        self, request: httpx2.Request, answer: httpx2.Response, connection_state: ConnectionState
    ) -> httpx2.Response:
        """Return an answer with an error status as a JSON-RPC error. One to a message that wants no answer says nothing
        about the session: some servers know no notifications."""
        if not _wants_answer(request.content):
            await answer.aclose()
            return httpx2.Response(202)
        sent = b""
        try:
            if answer.headers.get("content-type") != EVENT_STREAM:
                sent = await answer.aread()
        except (httpx2.StreamError, httpx2.TransportError):
            pass  # its status remains
        finally:
            await answer.aclose()
        if SESSION_HEADER in request.headers and is_session_unknown(answer.status_code, sent):
            connection_state.end_session(UNKNOWN_SESSION)
            body = error_body(UNKNOWN_SESSION, UNKNOWN_SESSION_CODE)
        else:
            connection_state.refused = True
            body = explain_status(answer.status_code, sent)
        return httpx2.Response(answer.status_code, headers={"content-type": "application/json"}, content=body)

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        assert isinstance(request.stream, httpx2.AsyncByteStream)  # noqa: S101
        url = request.url
        where = httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
        sent = httpcore2.Request(
            request.method, where, headers=request.headers.raw, content=request.stream, extensions=request.extensions
        )
        try:
            answer = await self._pool.handle_async_request(sent)
        except (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.TimeoutException) as error:
            raise httpx2.TransportError(str(error) or type(error).__name__) from error
        headers = httpx2.Headers(answer.headers)
        try:
            inflater = Inflater(
                headers.pop("content-encoding", "")
            )  # some servers compress what they were not asked to
        except ToolFailure as failure:
            await answer.aclose()
            raise httpx2.ReadError(failure.message) from None
        streamed = headers.get("content-type", "").lower().startswith(EVENT_STREAM)
        body_type = _StreamedBody if streamed else _WholeBody
        body = body_type(_Decoded(answer, inflater), self._limiter)
        if streamed:
            headers["content-type"] = EVENT_STREAM  # with another charset it would be parsed differently from the check
        return httpx2.Response(answer.status, headers=headers, stream=body)

    async def aclose(self) -> None:
        await self._pool.aclose()


def _wants_answer(message: bytes) -> bool:
    """Return whether a message of ours is a request, neither a notification nor an answer."""
    try:
        sent: Any = read_json(message, JSON_LIMITS)
    except JsonRefused:  # only the arguments of a call are that large
        return True
    return isinstance(sent, dict) and {"method", "id"} <= cast("dict[str, Any]", sent).keys()


async def _with_reason(answer: httpx2.Response, *, credentials: bool) -> httpx2.Response:
    """Return the answer with the reason for the refusal as its body."""
    await answer.aclose()
    headers = {name: value for name in ("www-authenticate",) if (value := answer.headers.get(name))}
    body = error_body(refusal_reason(answer.status_code, answer.headers, credentials=credentials))
    return httpx2.Response(answer.status_code, headers={**headers, "content-type": "application/json"}, content=body)


@asynccontextmanager
async def http_client(
    route: Route,
    *,
    connection_state: ConnectionState | None = None,
    credentials: bool | None = None,
    headers: Mapping[str, str] | None = None,
    auth: httpx2.Auth | None = None,
    read_seconds: float = READ_SECONDS,
) -> AsyncGenerator[httpx2.AsyncClient]:
    """Open a client that follows no redirects and ignores proxy variables of the environment."""
    timeout = httpx2.Timeout(CONNECT_SECONDS * 3, read=max(READ_SECONDS, read_seconds))
    async with httpx2.AsyncClient(
        transport=BoundedTransport(route, connection_state, credentials=credentials),
        headers=headers,
        auth=auth,
        timeout=timeout,
        trust_env=False,
    ) as client:
        yield client


class LimitedStream:
    """A stream of a server's messages that counts the server's requests and reports the end of the stream."""

    def __init__(self, stream: Any, connection_state: ConnectionState) -> None:
        self._stream, self._connection_state = stream, connection_state
        self._limiter = MessageRateLimiter()

    @property
    def last_context(self) -> Any:
        return self._stream.last_context

    async def receive(self) -> Any:
        return await self._stream.receive()

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> LimitedStream:
        return self

    async def __anext__(self) -> Any:
        try:
            item = await self._stream.__anext__()
            count_requests(getattr(item, "message", None), self._limiter)
            return item
        except StopAsyncIteration:
            self._connection_state.end("it has closed the connection")
            raise
        except LimitExceeded as overrun:
            self._connection_state.end(str(overrun))
            raise StopAsyncIteration from None

    async def __aenter__(self) -> LimitedStream:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class _Decoded:
    """The decompressed body of an answer, in small pieces, so that whoever reads it can stop at a limit."""

    def __init__(self, answer: httpcore2.Response, inflater: Inflater) -> None:
        self._answer, self._inflater = answer, inflater

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._answer.aiter_stream():
                for part in self._inflater.pieces(piece):
                    yield part
            self._inflater.finish()
        except ToolFailure as failure:
            raise LimitExceeded(failure.message) from None

    async def aclose(self) -> None:
        await self._answer.aclose()


class _WholeBody(httpx2.AsyncByteStream):
    """A body that is read as a whole, up to the limit."""

    def __init__(self, answer: _Decoded, limiter: MessageRateLimiter) -> None:
        self._answer, self._limiter = answer, limiter

    async def __aiter__(self) -> AsyncIterator[bytes]:
        body = bytearray()
        try:
            async for piece in self._answer:
                body += piece
                if len(body) > MESSAGE_LIMIT:
                    raise LimitExceeded(f"it is larger than the limit of {MESSAGE_LIMIT // 2**20} MiB")
            await self._limiter.throttle(len(body))
            check_nodes(bytes(body))
        except LimitExceeded as overrun:
            raise httpx2.StreamError(str(overrun)) from None
        yield await run_by_size(len(body), partial(mend_message, bytes(body)))

    async def aclose(self) -> None:
        await self._answer.aclose()


class _StreamedBody(httpx2.AsyncByteStream):
    """A body that is a stream of events, with limits on the rate and on the size of each event."""

    def __init__(self, answer: _Decoded, limiter: MessageRateLimiter) -> None:
        self._answer, self._limiter = answer, limiter

    async def __aiter__(self) -> AsyncIterator[bytes]:
        check = EventCheck()
        lines = LineBuffer()
        try:
            async for piece in self._answer:
                await self._limiter.throttle(check.feed(piece))
                if whole := lines.feed(piece):
                    yield await run_by_size(len(whole), partial(mend_events, whole))
            check.end()
            yield mend_events(lines.rest)
        except LimitExceeded as overrun:
            raise httpx2.SSEError(str(overrun)) from None  # the request that waits for it fails with this error

    async def aclose(self) -> None:
        await self._answer.aclose()


class _Backend(httpcore2.AsyncNetworkBackend):
    """Opens connections for the pool over the runtime's own upstreams."""

    def __init__(self, route: Route) -> None:
        self._route = route

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> httpcore2.AsyncNetworkStream:
        try:
            return _Connection(await self._route.open(host, port))
        except ToolFailure as failure:
            raise httpcore2.ConnectError(failure.message) from failure

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


class _Connection(httpcore2.AsyncNetworkStream):
    """One connection, with the interface of the pool."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        try:
            with anyio.fail_after(timeout):
                return await self._stream.reader.read(max_bytes)
        except TimeoutError as error:
            raise httpcore2.ReadTimeout("it sends nothing") from error
        except OSError as error:
            raise httpcore2.ReadError(error.strerror or "the connection broke") from error

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        try:
            with anyio.fail_after(timeout):
                self._stream.writer.write(buffer)
                await self._stream.writer.drain()
        except TimeoutError as error:
            raise httpcore2.WriteTimeout("it reads nothing") from error
        except OSError as error:
            raise httpcore2.WriteError(error.strerror or "the connection broke") from error

    async def aclose(self) -> None:
        self._stream.close()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> httpcore2.AsyncNetworkStream:
        from agent_common.net import upgrade_to_tls

        try:
            return _Connection(await upgrade_to_tls(self._stream, server_hostname or "", ssl_context))
        except ToolFailure as failure:
            raise httpcore2.ConnectError(failure.message) from failure

    def get_extra_info(self, info: str) -> Any:
        return self._stream.reader.at_eof() if info == "is_readable" else None
