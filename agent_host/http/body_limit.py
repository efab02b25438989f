"""Limit the size, the time and the total memory of request bodies. Bodies without a valid token are not read."""

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
"""Most bytes of one body."""
MOST_HELD = 8 * MAX_BODY
"""Most bytes of all unanswered requests and unsent answers of models. One caller may use at most half, and the total
bounds the host's memory for any number of callers."""
BODY_SECONDS = 120.0
"""Seconds within which a body must be complete."""


class BodyLimit:
    """Middleware for all routes. Refuses a body by its declared length, or once it exceeds the limit."""

    def __init__(self, app: ASGIApp, held: ShareCounter, limit: int = MAX_BODY, timeout: float = BODY_SECONDS) -> None:
        """`held`: counts bytes in memory by caller."""
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
        """Authenticate the caller before the body is read; FastAPI would read the body first."""
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
        """Count received bytes. Raises HTTPException, the only error that FastAPI passes through here."""
        if body.size + size > self._limit:
            raise HTTPException(413, self._too_large)
        if size and not self._held.acquire(body.caller, size):
            why = "your unanswered requests have too many bytes; wait for answers"
            raise HTTPException(429, why, {"retry-after": "5"})
        body.size += size

    def timeout_error(self) -> HTTPException:
        return HTTPException(408, f"the body was not complete within {self._timeout:g} s", {"connection": "close"})


_FORMS = (b"application/x-www-form-urlencoded", b"multipart/form-data", b"text/plain")


def _set_json_content_type(scope: Scope) -> None:
    """Treat every body as JSON, also without a content type or with the one that curl sends for `-d`, which FastAPI
    would read as text. A token is required in any case, so other web sites cannot exploit this."""
    kinds = [value for name, value in scope["headers"] if name == b"content-type"]
    if not kinds or kinds[0].partition(b";")[0].strip().lower() in _FORMS:
        others = [(name, value) for name, value in scope["headers"] if name != b"content-type"]
        scope["headers"] = [*others, (b"content-type", b"application/json")]


@dataclass(slots=True)
class _Body:
    """A body that is being received."""

    _limit: BodyLimit
    caller: str
    _receive: Receive
    _due: float
    size: int = 0
    _whole: bool = field(default=False)

    async def receive(self) -> Message:
        if self._whole:  # the app now waits for the caller to disconnect
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._due):
                message = await self._receive()
        except TimeoutError:
            raise self._limit.timeout_error() from None
        self._whole = not message.get("more_body", False)
        self._limit.count_bytes(self, len(message.get("body", b"")))
        return message
