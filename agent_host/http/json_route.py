"""Routes whose JSON bodies are read by the one reader of untrusted JSON, large ones off the event loop."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from json import JSONDecodeError
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from agent_common.json_reader import JsonLimits, JsonRefused, read_json_async

from .body_limit import MAX_BODY

BODY_LIMITS = JsonLimits(max_bytes=MAX_BODY, max_values=20_000)
"""Few values, because FastAPI validates them on the event loop and describes every fault that it finds."""


class JsonRoute(APIRoute):
    """For `APIRouter(route_class=JsonRoute)`: all routers with routes that take bodies."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def checked(request: Request) -> Response:
            return await handle(_Checked(request.scope, request.receive))

        return checked


class _Checked(Request):
    async def json(self) -> Any:
        """Raises JSONDecodeError, which FastAPI turns into a fault of the body."""
        try:
            return await read_json_async(await self.body(), BODY_LIMITS)
        except JsonRefused as refusal:
            raise JSONDecodeError(str(refusal), "", 0) from None
