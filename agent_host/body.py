"""The limit on what a caller may send."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .errors import TooLarge
from .problems import render

MAX_BODY = 32 * 1024 * 1024  # bytes


class BodyLimit:
    """Middleware: a body over the limit is refused by its declared length, or as soon as it grows past it."""

    def __init__(self, app: ASGIApp, limit: int = MAX_BODY) -> None:
        self._app = app
        self._limit = limit
        self._refusal = f"the body is larger than {limit} bytes; send less"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        declared = Headers(scope=scope).get("content-length", "0")
        if declared.isdigit() and int(declared) > self._limit:
            await render(TooLarge(self._refusal), scope["path"])(scope, receive, send)
            return
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self._limit:
                raise HTTPException(413, self._refusal)  # the one error that FastAPI lets through from a body
            return message

        await self._app(scope, counted, send)
