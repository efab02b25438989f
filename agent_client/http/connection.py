"""Requests to one server: its token, a deadline for each call, retries of what may be repeated."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncGenerator, AsyncIterable, Mapping
from contextlib import asynccontextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import httpx2
import stamina
from pydantic import BaseModel, ValidationError

from agent_common.net import trusting_tls

from ..errors import ClientError, DeadlineExceeded, UnexpectedReply
from .problems import pause_before_retry, refusal, translated, was_not_sent

M = TypeVar("M", bound=BaseModel)
CONNECT_SECONDS = 10.0
SILENCE_SECONDS = 45.0
"""Seconds without a byte after which a stream is broken: servers write a comment every 15 s."""
WRITE_SECONDS = 600.0
"""For a request whose body comes from elsewhere while it is sent."""
MAX_ANSWER_BYTES = 64 << 20
"""Of the body of an answer, and of one event of a stream: it may hold a whole recorded answer, the output of a tool, or
the result of a task. What `stream` gives piece by piece has no such bound."""
MAX_PROBLEM_BYTES = 1 << 20
"""Of the body of a refusal."""
ATTEMPTS = 7
"""With pauses of 0.1 s that double: about six seconds of a server that does not answer."""
MAX_CONNECTIONS = 200
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Call:
    """One request."""

    method: str
    path: str
    json: Any = None
    params: Mapping[str, Any] = field(default_factory=dict[str, Any])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    content: bytes | AsyncIterable[bytes] | None = None
    repeatable: bool = False
    """Whether it is sent again after its answer was lost, because twice does no harm. GET and HEAD always are."""
    timeout: float | None = None
    """Seconds for all attempts; None: those of the connection."""

    @property
    def may_repeat(self) -> bool:
        return self.repeatable or self.method in ("GET", "HEAD")


class Connection:
    """A pool of connections to one server. Close it with `aclose`."""

    def __init__(
        self,
        url: str,
        token: str | None,
        *,
        user: str | None = None,
        timeout: float = 60.0,
        silence: float = SILENCE_SECONDS,
        max_answer: int = MAX_ANSWER_BYTES,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(
                f"url: {url!r} must be http://HOST or https://HOST, with a port if it is not the usual one"
            )
        self.url = url.rstrip("/")
        self.timeout = timeout
        self.silence = silence
        self.max_answer = max_answer
        self.user = user
        self._borrowed = False
        self._http = httpx2.AsyncClient(
            # An answer that is encoded is refused: a few bytes of one would become any number of them here.
            headers={"Accept-Encoding": "identity"} | ({"Authorization": f"Bearer {token}"} if token else {}),
            timeout=httpx2.Timeout(timeout, connect=min(timeout, CONNECT_SECONDS)),
            limits=httpx2.Limits(max_connections=MAX_CONNECTIONS),
            transport=transport,
            # Without TLS no certificates are needed, and to read those of the system takes 50 ms and 3 MiB.
            verify=trusting_tls(os.environ) if parts.scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
            trust_env=parts.hostname not in _LOOPBACK,  # a proxy for the outside does not know this machine's own ports
        )

    async def aclose(self) -> None:
        if not self._borrowed:
            await self._http.aclose()

    def below(self, prefix: str, user: str | None) -> Connection:
        """Return this connection for what the server has below a path, on behalf of a user. It is closed with this."""
        other = copy(self)
        other.url = f"{self.url}{prefix}"
        other.user = user
        other._borrowed = True
        return other

    async def fetch(self, shape: type[M], call: Call) -> M:
        """Send the request and parse the answer. Raises ClientError."""
        response = await self.send(call)
        try:
            return shape.model_validate_json(response.content)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            at = ".".join(map(str, first["loc"])) or "body"
            raise UnexpectedReply(f"{call.method} {self.url}{call.path} answered {at}: {first['msg']}") from error

    async def send(self, call: Call) -> httpx2.Response:
        """Send the request, again if that is safe and of use, and return a successful response. Raises ClientError."""
        seconds = call.timeout if call.timeout is not None else self.timeout
        deadline = monotonic() + seconds
        last = None

        def pause(error: Exception) -> bool | float:
            nonlocal last
            last = error
            wait = pause_before_retry(error)
            if wait is None or not isinstance(error, ClientError) or not (call.may_repeat or was_not_sent(error)):
                return False
            return wait < deadline - monotonic() and (wait or True)

        try:
            async with asyncio.timeout(seconds):
                async for attempt in stamina.retry_context(on=pause, attempts=ATTEMPTS, timeout=None, wait_jitter=0.1):
                    with attempt:
                        return await self._send_once(call, deadline - monotonic())
        except TimeoutError as error:
            if isinstance(error, ClientError):
                raise
            raise DeadlineExceeded(f"{call.method} {self.url}{call.path} took {seconds:g} s") from last
        raise AssertionError("unreachable")

    async def _send_once(self, call: Call, seconds: float) -> httpx2.Response:
        limits = httpx2.Timeout(max(seconds, 0.001), connect=min(max(seconds, 0.001), CONNECT_SECONDS))
        async with self._opened(call, limits) as response:
            if response.is_error and call.method == "HEAD":  # its answer has no body, and so no reason; that to GET has
                first_byte = {**call.headers, "Range": "bytes=0-0"}
                await self._send_once(replace(call, method="GET", headers=first_byte), seconds)
                raise refusal(response, b"")
            return await self._read(call, response)

    @asynccontextmanager
    async def stream(self, call: Call) -> AsyncGenerator[httpx2.Response]:
        """Send the request once, and give the response while its body still comes. Raises ClientError, in the body of
        the `with` too when the connection breaks or is silent for too long."""
        async with self._opened(call, httpx2.Timeout(self.silence, connect=CONNECT_SECONDS)) as response:
            yield response

    @asynccontextmanager
    async def _opened(self, call: Call, limits: httpx2.Timeout) -> AsyncGenerator[httpx2.Response]:
        """Send the request once, and give a response that is none but what was asked for, before its body has come."""
        what = f"{call.method} {self.url}{call.path}"
        with translated(what):
            async with self._http.stream(
                call.method,
                self.url + call.path,
                json=call.json,
                params=call.params,
                headers=self._headers(call),
                content=call.content,
                timeout=limits,
            ) as response:
                if (encoding := response.headers.get("content-encoding", "identity")).lower() != "identity":
                    raise UnexpectedReply(f"{what} answered in the encoding {encoding[:40]!r}, which was not asked for")
                if response.is_error and call.method != "HEAD":
                    raise refusal(response, await _body(what, response, MAX_PROBLEM_BYTES))
                if not (response.is_success or response.is_error):
                    raise UnexpectedReply(f"{what} answered HTTP {response.status_code}")
                yield response

    async def _read(self, call: Call, response: httpx2.Response) -> httpx2.Response:
        """Return the response with its body."""
        body = await _body(f"{call.method} {self.url}{call.path}", response, self.max_answer)
        return httpx2.Response(response.status_code, headers=response.headers, content=body, request=response.request)

    def _headers(self, call: Call) -> list[tuple[bytes, bytes]]:
        """Return the call's headers, and the user in UTF-8."""
        user = [] if self.user is None else [(b"X-Agent-User", self.user.encode())]
        return [*user, *((name.encode(), value.encode()) for name, value in call.headers.items())]


async def _body(what: str, response: httpx2.Response, most: int) -> bytes:
    """Read a body. Raises UnexpectedReply if it has more than `most` bytes."""
    pieces: list[bytes] = []
    size = 0
    async for piece in response.aiter_bytes():
        size += len(piece)
        if size > most:
            raise UnexpectedReply(f"{what} answered more than {most} bytes")
        pieces.append(piece)
    return b"".join(pieces)


def path(*names: str) -> str:
    """Join names to a path, each of them quoted: `path("sessions", "a b")` is `/sessions/a%20b`."""
    return "".join(f"/{_quoted(name)}" for name in names)


def _quoted(name: str) -> str:
    """Return the name for a path; of `.` and `..` the dots too, because they would lead to another route."""
    return quote(name, safe="") if name.strip(".") else name.replace(".", "%2E")
