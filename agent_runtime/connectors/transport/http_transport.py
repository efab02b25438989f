"""HTTP to a configured server, and to no other host: with limits, over the runtime's own upstream connections.

Imported only when a remote server is used, because it needs packages that load slowly.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, cast

import httpcore2
import httpx2

from agent_common.json_reader import JsonRefused, read_json
from agent_common.net import Inflater, public_tls

from ...errors import ToolFailure
from ..rate_limit import JSON_LIMITS, LimitExceeded, MessageRateLimiter
from .answer_bodies import EVENT_STREAM, JSON_DOCUMENT, Decoded, StreamedBody, WholeBody
from .incoming import count_requests
from .mended_messages import find_request_id
from .notification_stream import NotificationStream
from .refusals import (
    REFUSAL_STATUSES,
    UNKNOWN_SESSION,
    UNKNOWN_SESSION_CODE,
    error_body,
    explain_status,
    is_session_unknown,
    refusal_reason,
)
from .routes import Backend, Route

if TYPE_CHECKING:
    from .connection_state import ConnectionState

CONNECT_SECONDS = 10.0
READ_SECONDS = 300.0
"""Longest time without a byte while a call or a stream of notifications is open."""
CLOSE_SECONDS = 2.0
MAX_CONNECTIONS = 20
SESSION_HEADER = "mcp-session-id"
CHALLENGE_HEADER = "www-authenticate"


class BoundedTransport(httpx2.AsyncBaseTransport):
    """Sends requests, and reports to `connection_state` when the server no longer knows the session.

    `credentials`: whether any are configured, for the explanation of refusals; None passes refusals on unchanged.
    """

    def __init__(
        self, route: Route, connection_state: ConnectionState | None = None, *, credentials: bool | None = None
    ) -> None:
        self._connection_state = connection_state
        self._credentials = credentials
        self._notifications = None if connection_state is None else NotificationStream(connection_state)
        self._limiter = MessageRateLimiter()
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=public_tls(), max_connections=MAX_CONNECTIONS, network_backend=Backend(route)
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.method == "DELETE":  # ends the session; not worth a long wait
            request.extensions["timeout"] = dict.fromkeys(("connect", "read", "write", "pool"), CLOSE_SECONDS)
        request.headers["accept-encoding"] = "identity"
        if SESSION_HEADER in request.headers and self._connection_state is not None:
            self._connection_state.session_shown = True
        if self._notifications is not None and self._notifications.is_meant(request):
            answer = await self._notifications.open(request, self._send)
        else:
            answer = await self._send(request)
        if (
            request.method == "POST"
            and answer.status_code not in REFUSAL_STATUSES
            and self._connection_state is not None
        ):
            self._connection_state.answered = True
        if answer.status_code >= 400 and request.method == "POST" and self._connection_state is not None:
            return await self._explained(request, answer, self._connection_state)
        if answer.status_code in REFUSAL_STATUSES and self._credentials is not None:
            return await self._with_reason(answer)
        return answer

    async def _explained(
        self, request: httpx2.Request, answer: httpx2.Response, connection_state: ConnectionState
    ) -> httpx2.Response:
        """Return an answer with an error status as a JSON-RPC error. One to a message that wants no answer says nothing
        about the session: some servers know no notifications."""
        status = answer.status_code
        refused = status in REFUSAL_STATUSES
        if not _wants_answer(request):
            if refused:
                return await self._with_reason(answer)
            await answer.aclose()
            return httpx2.Response(202)
        shown = SESSION_HEADER in request.headers and not (refused and CHALLENGE_HEADER in answer.headers)
        sent = await _read_refusal(answer)
        if shown and is_session_unknown(status, sent):
            connection_state.end_session(UNKNOWN_SESSION)
            status = HTTPStatus.NOT_FOUND  # after 401 the access token would be renewed
            body = error_body(UNKNOWN_SESSION, UNKNOWN_SESSION_CODE)
        elif refused:
            return await self._with_reason(answer)
        else:
            body = explain_status(status, sent)
        return httpx2.Response(status, headers={"content-type": JSON_DOCUMENT}, content=body)

    async def _with_reason(self, answer: httpx2.Response) -> httpx2.Response:
        """Return a refusal with its reason as its body."""
        await answer.aclose()
        headers = {name: value for name in (CHALLENGE_HEADER,) if (value := answer.headers.get(name))}
        body = error_body(refusal_reason(answer.status_code, answer.headers, credentials=bool(self._credentials)))
        return httpx2.Response(answer.status_code, headers={**headers, "content-type": JSON_DOCUMENT}, content=body)

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        assert isinstance(request.stream, httpx2.AsyncByteStream)  # noqa: S101
        if request.method == "GET":
            await self._limiter.throttle_stream()
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
            # Some servers compress what they were not asked to.
            inflater = Inflater(headers.pop("content-encoding", ""), text=True)
        except ToolFailure as failure:
            await answer.aclose()
            raise httpx2.ReadError(failure.message) from None
        # With an error status it may be of a gateway, which knows nothing of requests.
        request_id = find_request_id(request.content) if request.method == "POST" and answer.status < 400 else None
        decoded = Decoded(answer, inflater)
        label = headers.get("content-type", "")
        if answer.status == 200 and self._connection_state is not None and _wants_answer(request):
            label = headers["content-type"] = await decoded.content_type(label)
        streamed = label.lower().startswith(EVENT_STREAM)
        body_type = StreamedBody if streamed else WholeBody
        if streamed:
            headers["content-type"] = EVENT_STREAM  # with another charset it would be parsed differently from the check
        return httpx2.Response(answer.status, headers=headers, stream=body_type(decoded, self._limiter, request_id))

    async def aclose(self) -> None:
        await self._pool.aclose()


def _wants_answer(request: httpx2.Request) -> bool:
    """Return whether it posts a request of ours, neither a notification nor an answer."""
    if request.method != "POST":
        return False
    try:
        sent: Any = read_json(request.content, JSON_LIMITS)
    except JsonRefused:  # only the arguments of a call are that large
        return True
    return isinstance(sent, dict) and {"method", "id"} <= cast("dict[str, Any]", sent).keys()


async def _read_refusal(answer: httpx2.Response) -> bytes:
    """Return the body of an answer with an error status, or nothing if it cannot be read: its status remains."""
    try:
        return await answer.aread() if answer.headers.get("content-type") != EVENT_STREAM else b""
    except (httpx2.StreamError, httpx2.TransportError):
        return b""
    finally:
        await answer.aclose()


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
        self._stream = stream
        self._connection_state = connection_state
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
