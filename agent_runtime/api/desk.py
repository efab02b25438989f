"""The few things that all routes do with a request."""

from __future__ import annotations

from typing import TypeVar

from fastapi import Request
from pydantic import BaseModel
from pydantic_core import from_json

from ..errors import InvalidRequest, NotReady
from ..workspace import OPERATOR
from .front import Desk, Front

M = TypeVar("M", bound=BaseModel)
USER_HEADER = "x-agent-user"


def front(request: Request) -> Front:
    found: Front = request.app.state.front
    return found


def desk(request: Request) -> Desk:
    """The running agent, for those who ask about work or stop it. Raises NotReady before it is there."""
    at = front(request)
    if at.desk is None:
        raise _not_ready(at)
    return at.desk


def open_desk(request: Request) -> Desk:
    """The running agent, for those who bring work. Raises NotReady before it is there and once it is on its way out."""
    at = front(request)
    if at.desk is None or at.draining:
        raise _not_ready(at)
    return at.desk


def _not_ready(at: Front) -> NotReady:
    reason = ", ".join(at.reasons())
    return NotReady(f"the server is not ready: {reason}", headers={"Retry-After": "1"})


async def body(request: Request, shape: type[M]) -> M:
    """The JSON body as a message. Raises ValidationError that names every wrong field."""
    raw = await request.body() or b"{}"
    if b"NaN" in raw or b"Infinity" in raw:
        _refuse_odd_numbers(raw)
    return shape.model_validate_json(raw)


def query(request: Request, shape: type[M]) -> M:
    """The query parameters as a message. Raises ValidationError that names every wrong one."""
    return shape.model_validate(dict(request.query_params))


def _refuse_odd_numbers(raw: bytes) -> None:
    """pydantic reads NaN and Infinity, which are not JSON and would come back from the disk as null."""
    try:
        from_json(raw, allow_inf_nan=False)
    except ValueError as error:
        raise InvalidRequest(f"body: Invalid JSON: {error}", faults=[("body", f"Invalid JSON: {error}")]) from error


def principal(request: Request, named: str | None = None) -> str:
    """Whom the holder of the token speaks for."""
    user = named or request.headers.get(USER_HEADER) or OPERATOR
    if len(user) > 200:
        raise InvalidRequest("the user is too long", faults=[("user", "at most 200 characters")])
    return user
