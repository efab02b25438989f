"""What stands at the port before the server behind it has been loaded.

A microVM's cold start is a number that users feel, and loading FastAPI is most of it. So the port opens first: the
probes are answered from here, and every other request waits for the application, which is a matter of a moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

PATIENCE = 30.0
"""Seconds a request waits for the application."""
_PROBES = {
    "/healthz": (200, b'{"status":"ok"}'),
    "/readyz": (503, b'{"ready":false,"reasons":["starting"]}'),
}
_STARTING = (503, b'{"type":"about:blank","title":"Service Unavailable","status":503,"code":"not_ready"}')


class Entrance:
    """An ASGI application that becomes another one."""

    def __init__(self) -> None:
        self._app: App | None = None
        self._opened = asyncio.Event()

    def open(self, app: App) -> None:
        """From now on every request goes to `app`."""
        self._app = app
        self._opened.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._app is None:
            known = _PROBES.get(scope.get("path", ""))
            if known is not None or not await self._soon():
                await _answer(send, *(known or _STARTING))
                return
        assert self._app is not None  # noqa: S101  it was waited for
        await self._app(scope, receive, send)

    async def _soon(self) -> bool:
        try:
            async with asyncio.timeout(PATIENCE):
                return await self._opened.wait()
        except TimeoutError:
            return False


async def _answer(send: Send, status: int, body: bytes) -> None:
    kind = b"application/json" if body in (known for _, known in _PROBES.values()) else b"application/problem+json"
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
