"""What every request passes before a route sees it: the token, and the limit on its body."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from .problems import problem

BODY_LIMIT = 8 * 1024 * 1024
OPEN_PATHS = frozenset({"/healthz", "/readyz"})
"""Routes that answer without a token: they carry reason codes, no data."""

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class _TooLarge(Exception):
    """The body went over its limit while it was read."""


class Guard:
    """ASGI middleware: 401 without the token, 413 over the body limit."""

    def __init__(self, app: App, token: str | None) -> None:
        self._app = app
        self._expected = token.encode() if token else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers: dict[bytes, bytes] = dict(scope["headers"])
        path: str = scope["path"]
        if self._expected is not None and path not in OPEN_PATHS and not self._authorized(headers):
            detail = "send the server's token: Authorization: Bearer TOKEN"
            await problem(401, "unauthorized", detail, path, headers={"WWW-Authenticate": "Bearer"})(
                scope, receive, send
            )  # type: ignore[arg-type]
        elif not headers.get(b"content-length", b"0").isdigit():
            await problem(400, "bad_request", "Content-Length is not a number", path)(scope, receive, send)  # type: ignore[arg-type]
        elif int(headers.get(b"content-length", b"0")) > BODY_LIMIT:
            await _refuse(scope, receive, send)
        else:
            await self._limited(scope, receive, send)

    def _authorized(self, headers: dict[bytes, bytes]) -> bool:
        scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(given.strip(), self._expected or b"")

    async def _limited(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A body without a length is counted while it is read."""
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > BODY_LIMIT:
                raise _TooLarge
            return message

        try:
            await self._app(scope, counted, send)
        except _TooLarge:
            await _refuse(scope, receive, send)


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    detail = f"the body is larger than {BODY_LIMIT} bytes"
    response = problem(413, "body_too_large", detail, scope["path"], headers={"Connection": "close"})
    await response(scope, receive, send)  # type: ignore[arg-type]
