"""What a caller may send, and by when: bodies of strangers are not read, and those of callers have bounds."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from sqlalchemy.exc import SQLAlchemyError
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent_common.net import ShareCounter

from ..access import AccessGuard
from ..errors import BodyTooLargeError, RequestError
from .problems import database_failed, render

MAX_BODY = 32 * 1024 * 1024
"""Bytes of one body."""
MOST_HELD = 8 * MAX_BODY
"""Bytes of all requests that are not answered yet, and of models' answers that are not sent yet. Callers share them:
one alone may have half, and however many there are, the host's memory is bounded."""
BODY_SECONDS = 120.0
"""Seconds in which a body must have come."""


class BodyLimit:
    """Middleware before every route. A body over a limit is refused by its declared length, or as soon as it is."""

    def __init__(self, app: ASGIApp, held: ShareCounter, limit: int = MAX_BODY, timeout: float = BODY_SECONDS) -> None:
        """`held`: shares of bytes in memory."""
        self._app, self._held, self._limit, self._timeout = app, held, limit, timeout
        self._too_large = f"the body is larger than {limit} bytes; send less"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope) if scope["type"] == "http" else Headers()
        declared = headers.get("content-length", "0")
        if declared == "0" and "transfer-encoding" not in headers:
            await self._app(scope, receive, send)
        elif declared.isdigit() and int(declared) > self._limit:
            await render(BodyTooLargeError(self._too_large), scope["path"])(scope, receive, send)
        else:
            await self._limit_body(scope, receive, send)

    async def _limit_body(self, scope: Scope, receive: Receive, send: Send) -> None:
        """FastAPI reads a body before it asks who sends it."""
        guard: AccessGuard = scope["app"].state.guard
        try:
            caller = await guard.authenticate(scope)
        except RequestError as error:
            await render(error, scope["path"])(scope, receive, send)
            return
        except SQLAlchemyError as error:
            await database_failed(error, scope["path"])(scope, receive, send)
            return
        _set_json_content_type(scope)
        body = _Body(self, caller.agent_id, receive, asyncio.get_running_loop().time() + self._timeout)
        try:
            await self._app(scope, body.receive, send)
        finally:
            if body.size:
                self._held.release(body.caller, body.size)

    def count_bytes(self, body: _Body, size: int) -> None:
        """Raises HTTPException, the one error that FastAPI lets through from a body."""
        if body.size + size > self._limit:
            raise HTTPException(413, self._too_large)
        if size and not self._held.acquire(body.caller, size):
            why = "your requests that are not answered yet have too many bytes; wait for answers"
            raise HTTPException(429, why, {"retry-after": "5"})
        body.size += size

    def timeout_error(self) -> HTTPException:
        return HTTPException(408, f"the body has not come within {self._timeout:g} s", {"connection": "close"})


_FORMS = (b"application/x-www-form-urlencoded", b"multipart/form-data", b"text/plain")


def _set_json_content_type(scope: Scope) -> None:
    """Every body here is JSON, also one that says nothing of itself, or what curl says of any `-d`: without this,
    FastAPI takes it for a text. A token is wanted anyway, so no page of elsewhere can use that."""
    kinds = [value for name, value in scope["headers"] if name == b"content-type"]
    if not kinds or kinds[0].partition(b";")[0].strip().lower() in _FORMS:
        others = [(name, value) for name, value in scope["headers"] if name != b"content-type"]
        scope["headers"] = [*others, (b"content-type", b"application/json")]


@dataclass(slots=True)
class _Body:
    """One that comes."""

    _limit: BodyLimit
    caller: str
    _receive: Receive
    _due: float
    size: int = 0
    _whole: bool = field(default=False)

    async def receive(self) -> Message:
        if self._whole:  # what is waited for now is the caller's going away
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._due):
                message = await self._receive()
        except TimeoutError:
            raise self._limit.timeout_error() from None
        self._whole = not message.get("more_body", False)
        self._limit.count_bytes(self, len(message.get("body", b"")))
        return message
