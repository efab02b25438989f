"""Routes whose JSON bodies are parsed by the common reader of untrusted JSON, in a thread if they are large."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from json import JSONDecodeError
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from agent_common.json_reader import JsonLimits, JsonRefused, read_json_async

from .body_limit import MAX_BODY

BODY_LIMITS = JsonLimits(max_bytes=MAX_BODY, max_values=20_000)
"""The number of values is small, because FastAPI validates them on the event loop and describes every fault."""


class JsonRoute(APIRoute):
    """The route class of all routers with bodies: `APIRouter(route_class=JsonRoute)`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def checked(request: Request) -> Response:
            return await handle(_Checked(request.scope, request.receive))

        return checked


class _Checked(Request):
    async def json(self) -> Any:
        """Parse the body. Raises JSONDecodeError, which FastAPI reports as a fault of the body."""
        try:
            return await read_json_async(await self.body(), BODY_LIMITS)
        except JsonRefused as refusal:
            raise JSONDecodeError(str(refusal), "", 0) from None
