"""What stands at the port before the server behind it has been loaded.

A microVM's cold start is a number that users feel, and loading FastAPI is most of it. So the port opens first: the
probes are answered from here, and every other request waits for the application, which is a matter of a moment.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

JSON = b"application/json"
PROBLEM_JSON = b"application/problem+json"
WAIT_SECONDS = 30.0
"""Seconds a request waits for the application."""
_PROBES = {
    "/healthz": (200, JSON, b'{"status":"ok"}'),
    "/readyz": (503, JSON, b'{"ready":false,"reasons":["starting"]}'),
}


class StartupApp:
    """An ASGI application that becomes another one."""

    def __init__(self, wait_seconds: float = WAIT_SECONDS) -> None:
        self._wait_seconds = wait_seconds
        self._app: App | None = None
        self._decided = asyncio.Event()
        """Set once there is an application, or there will be none."""

    def set_app(self, app: App) -> None:
        """From now on every request goes to `app`."""
        self._app = app
        self._decided.set()

    def close(self) -> None:
        """Let no request wait any longer: the application could not be started."""
        self._decided.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (app := self._app) is None:
            path: str = scope.get("path", "")
            known = _PROBES.get(path)
            app = await self._wait_for_app() if known is None else None
            if app is None:
                await _answer(send, *(known or _starting(path)))
                return
        await app(scope, receive, send)

    async def _wait_for_app(self) -> App | None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._wait_seconds):
                await self._decided.wait()
        return self._app


def _starting(path: str) -> tuple[int, bytes, bytes]:
    problem = {
        "type": "about:blank",
        "title": "Service Unavailable",
        "status": 503,
        "detail": "the server is starting",
        "instance": path,
        "code": "not_ready",
    }
    return 503, PROBLEM_JSON, json.dumps(problem).encode()


async def _answer(send: Send, status: int, kind: bytes, body: bytes) -> None:
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
