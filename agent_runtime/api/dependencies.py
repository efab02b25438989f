"""Functions that all routes use: services, parsing of bodies and queries, the principal."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError

from agent_common.api import BodyRefused, release_body, shrink_body
from agent_common.json_reader import JsonLimits, JsonRefused, read_json, run_by_size
from agent_common.protocol import validation_faults

from ..errors import InvalidRequest, NotReady
from ..workspace import OPERATOR
from .app_state import AppState, Services
from .body_limits import BODY_LIMIT, CHAT_BYTES, MESSAGE_BYTES
from .last_message import MAX_TOKENS, LastMessageReader, MessageTooLarge, TooManyTokens

M = TypeVar("M", bound=BaseModel)
USER_HEADER = "x-agent-user"
BODY_LIMITS = JsonLimits(BODY_LIMIT)


def get_app_state(request: Request) -> AppState:
    found: AppState = request.app.state.app_state
    return found


def get_services(request: Request) -> Services:
    """Return the services, for routes that read or stop work. Raises NotReady before the agent is ready."""
    at = get_app_state(request)
    if at.services is None:
        raise _not_ready(at)
    return at.services


def require_accepting(request: Request) -> Services:
    """Return the services, for routes that bring work. Raises NotReady before the agent is ready and during
    shutdown."""
    at = get_app_state(request)
    if at.services is None or at.draining:
        raise _not_ready(at)
    return at.services


def _not_ready(state: AppState) -> NotReady:
    reason = ", ".join(state.not_ready_reasons())
    return NotReady(f"the server is not ready: {reason}", headers={"Retry-After": "1"})


async def read_body(request: Request, shape: type[M]) -> M:
    """Parse the JSON body as `shape`. Raises InvalidRequest with every fault."""
    try:
        raw = b"".join([piece async for piece in request.stream()]) or b"{}"  # `request.body` would keep the bytes
        return await run_by_size(len(raw), partial(_parse_body, raw, lambda _: shape))
    finally:
        release_body(request.scope)


async def read_chat_body(request: Request, shape: Callable[[Any], type[M]]) -> M:
    """Parse the JSON body of a chat request, of whose `messages` only the last one is kept. Raises InvalidRequest and
    BodyRefused."""
    reader = LastMessageReader(MESSAGE_BYTES)
    received = 0
    try:
        async for piece in request.stream():
            received += len(piece)
            if received > CHAT_BYTES:
                raise _too_large(f"the body is larger than {CHAT_BYTES} bytes; send less")
            if dropped := len(piece) - reader.feed(piece):
                shrink_body(request.scope, dropped)
        if dropped := -reader.finish():
            shrink_body(request.scope, dropped)
        raw = bytes(reader.body) or b"{}"
        return await run_by_size(len(raw), partial(_parse_body, raw, shape))
    except MessageTooLarge:
        raise _too_large(f"the last message is larger than {MESSAGE_BYTES} bytes; send less") from None
    except TooManyTokens:
        raise InvalidRequest.from_faults(
            [("body", f"it has more than {MAX_TOKENS} values; send the last message only")]
        ) from None
    finally:
        release_body(request.scope)


def _too_large(detail: str) -> BodyRefused:
    return BodyRefused(413, "body_too_large", detail, {"Connection": "close"})


def _parse_body(raw: bytes, shape: Callable[[Any], type[M]]) -> M:
    """Parse outside the async function, so that no traceback keeps a refused body in memory."""
    try:
        value = read_json(raw, BODY_LIMITS)
    except JsonRefused as refusal:
        faults = [("body", str(refusal))]
    else:
        return _parse(value, shape(value))
    raise InvalidRequest.from_faults(faults)


def _parse(value: Any, shape: type[M]) -> M:
    try:
        return shape.model_validate(value)
    except ValidationError as error:
        faults = validation_faults(error, shape)
    raise InvalidRequest.from_faults(faults)


def parse_query(request: Request, shape: type[M], *, lists: tuple[str, ...] = ()) -> M:
    """Parse the query parameters as `shape`. Raises InvalidRequest with every fault.

    `lists`: parameters that may be repeated.
    """
    given = request.query_params
    repeated = {name: given.getlist(name) for name in lists if name in given}
    return _parse({**given, **repeated}, shape)


def principal(request: Request, named: str | None = None) -> str:
    """Return the principal that the request is for: `named` in its body, or the header's user, or the operator.

    Raises InvalidRequest if body and header name two users: a gateway that sets the header vouches for that one alone.
    """
    in_header = user_in_header(request)
    if named and in_header and named != in_header:
        raise InvalidRequest.from_faults([("user", "is not the user of the header X-Agent-User; leave one out")])
    user = in_header or named or OPERATOR
    if len(user) > 200:
        raise InvalidRequest("the user is too long", faults=[("user", "at most 200 characters")])
    return user


def user_in_header(request: Request) -> str | None:
    """Return the user of the header, or None without one. Raises InvalidRequest for two: one of them is the caller's.

    It is read as UTF-8, so that a name is the same as in a body; Starlette decodes it as Latin-1."""
    given = request.headers.getlist(USER_HEADER)
    if not given:
        return None
    if len(given) > 1:
        raise InvalidRequest.from_faults([("X-Agent-User", "comes more than once; send it once")])
    try:
        name = given[0].encode("latin-1").decode()
    except UnicodeDecodeError:
        raise InvalidRequest.from_faults([("X-Agent-User", "is not UTF-8; send the name in UTF-8")]) from None
    if not name:
        raise InvalidRequest.from_faults([("X-Agent-User", "is empty; name a user, or leave it out")])
    return name
