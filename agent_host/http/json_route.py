"""Routes that refuse unknown query parameters, and whose JSON bodies are parsed by the common reader of untrusted JSON,
in a thread if they are large."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterator
from functools import cached_property
from json import JSONDecodeError
from typing import Any, ClassVar

from fastapi import Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.types import Scope

from agent_common.api import BodyRefused
from agent_common.json_reader import JsonLimits, JsonRefused, read_json_async
from agent_common.protocol import MAX_FAULTS, MAX_VALUE_BYTES, MAX_VALUE_LEVELS, limit_faults, unknown_field

from ..errors import InvalidRequest
from .body_limit import MAX_BODY

Handler = Callable[[Request], Awaitable[Response]]
BODY_LIMITS = JsonLimits(max_bytes=MAX_BODY, max_values=20_000)
"""The number of values is small, because FastAPI validates them on the event loop and describes every fault."""


class StrictRoute(APIRoute):
    """The route class of routers without JSON bodies: a misspelt parameter is refused, as without its filter the answer
    would be of everything."""

    @cached_property
    def _parameters(self) -> set[str]:
        return set(_query_parameters(self.dependant))

    def handle_directly(self, handle: Handler) -> Handler:
        """Return what answers requests without a query. `handle` is FastAPI's handler, which the hottest routes go
        round: it solves their parameters in as much time as they take themselves."""
        return handle

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        handle_directly = self.handle_directly(handle)

        async def checked(request: Request) -> Response:
            if not request.scope["query_string"]:
                return await handle_directly(request)
            unknown = [name for name in request.query_params if name not in self._parameters]
            if unknown:
                known = [self._parameters if number < MAX_FAULTS else () for number in range(len(unknown))]
                faults = [(name, unknown_field(name, close)) for name, close in zip(unknown, known, strict=True)]
                raise InvalidRequest.from_faults(limit_faults(faults))
            return await handle(request)

        return checked


def _query_parameters(dependant: Dependant) -> Iterator[str]:
    yield from (field.alias for field in dependant.query_params)
    for inner in dependant.dependencies:
        yield from _query_parameters(inner)


class JsonRoute(StrictRoute):
    """The route class of all routers with bodies: `APIRouter(route_class=JsonRoute)`."""

    limits: ClassVar[JsonLimits] = BODY_LIMITS
    """Of a body."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        limits = self.limits
        if self.body_field is None:
            return handle

        async def checked(request: Request) -> Response:
            _set_json_content_type(request.scope)
            checking = _Checked(request.scope, request.receive)
            checking.limits = limits
            return await handle(checking)

        return checked


class _Checked(Request):
    limits: JsonLimits

    async def json(self) -> Any:
        """Parse the body. Raises BodyRefused, and JSONDecodeError, which FastAPI reports as a fault of the body."""
        try:
            return await read_json_async(await self.body(), self.limits)
        except JsonRefused as refusal:
            if refusal.code == "too_large":
                raise BodyRefused(413, "body_too_large", str(refusal)) from None
            raise JSONDecodeError(str(refusal), "", 0) from None


class ValueRoute(JsonRoute):
    """The same for bodies that hold one JSON value, which is measured in bytes and levels."""

    limits = JsonLimits(max_bytes=8 * MAX_VALUE_BYTES, max_depth=1 + MAX_VALUE_LEVELS)
    """Characters of the value may be escaped. A long list is one value, and only its bytes count."""


_FORMS = (b"application/x-www-form-urlencoded", b"multipart/form-data", b"text/plain")


def _set_json_content_type(scope: Scope) -> None:
    """Treat every body as JSON, also without a content type or with the one that curl sends for `-d`, which FastAPI
    would read as text. A token is required in any case, so other web sites cannot exploit this."""
    kinds = [value for name, value in scope["headers"] if name == b"content-type"]
    if not kinds or kinds[0].partition(b";")[0].strip().lower() in _FORMS:
        others = [(name, value) for name, value in scope["headers"] if name != b"content-type"]
        scope["headers"] = [*others, (b"content-type", b"application/json")]
