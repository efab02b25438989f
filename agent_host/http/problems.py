"""Error responses: OpenAI's shape under `/v1`, because its clients expect it, and problem+json elsewhere."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import DataError, SQLAlchemyError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from agent_common.api import BodyRefused, error_response
from agent_common.protocol import MAX_FAULTS, fields_at, limit_faults, unknown_field

from ..errors import InvalidRequest, RequestError, Unavailable

log = structlog.get_logger(__name__)

_OPENAI_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
_CODES = {404: "not_found", 405: "method_not_allowed"}
_OF_AN_AGENT = ("task", "chat", "status", "result", "sessions")
"""What the routes begin with that people look for at an agent first."""


def install(app: FastAPI) -> None:
    """Register handlers that give every error of the app the shape of its path."""
    for kind, handler in _HANDLERS.items():
        app.add_exception_handler(kind, handler)
    app.add_exception_handler(Exception, _on_crash)


async def answer_error(request: Request, error: Exception) -> Response:
    """Return the response to a request that has failed outside the app."""
    return await next(handler for kind, handler in _HANDLERS.items() if isinstance(error, kind))(request, error)


def render(error: RequestError, path: str) -> Response:
    """Return the response to a caller of `path` for an error."""
    if path == "/v1" or path.startswith("/v1/"):
        return JSONResponse(openai_error(error), error.status, error.headers)
    return error_response(error, path)


def render_body_refused(error: BodyRefused, path: str) -> Response:
    """The same for a body that was refused."""
    wrapped = RequestError(error.detail, code=error.code, headers=dict(error.headers or {}))
    wrapped.status = error.status_code
    return render(wrapped, path)


def database_failed(error: Exception, path: str) -> Response:
    """Log an error of the database, and return the response for it: 422 where the database is well, and the caller
    has sent what it cannot keep."""
    if isinstance(error, DataError):
        log.warning("value_not_kept", path=path, error=str(error).splitlines()[0])
        text = "the request has a value that the database cannot keep, such as the character NUL; leave it out"
        return render(InvalidRequest(text), path)
    log.error("database_failed", path=path, error=str(error).splitlines()[0])
    return render(Unavailable("the host's database does not answer", code="database_unavailable"), path)


def openai_error(error: RequestError) -> dict[str, Any]:
    """Return the error as a body in OpenAI's shape."""
    kind = _OPENAI_TYPES.get(error.status, "api_error" if error.status >= 500 else "invalid_request_error")
    param = error.extra.get("param")
    return {"error": {"message": error.message, "type": kind, "param": param, "code": error.code}}


async def _on_request_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestError)  # noqa: S101  what the handler is registered for
    return render(error, request.url.path)


async def _on_http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101  what the handler is registered for
    if isinstance(error, BodyRefused):
        return render_body_refused(error, request.url.path)
    text = f"{request.method} {request.url.path}: {error.detail}"
    if error.status_code == 404:
        text = _no_route(request.method, request.url.path)
    wrapped = RequestError(
        text,
        code=_CODES.get(error.status_code, "bad_request"),
        headers=dict(error.headers or {}),
    )
    wrapped.status = error.status_code
    return render(wrapped, request.url.path)


def _no_route(method: str, path: str) -> str:
    where = "GET /healthz says whether the host is there, GET /openapi.json lists all routes"
    if path.removeprefix("/").partition("/")[0] in _OF_AN_AGENT:
        where = f"an agent's is /workspaces/WORKSPACE/api{path} here"
    return f"there is no route {method} {path}; {where}"


async def _on_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101  what the handler is registered for
    found = error.errors()
    body = getattr(request.scope.get("route"), "body_field", None)
    shape = body.field_info.annotation if body is not None else None
    faults = [(_field(one["loc"]), _message(one, shape)) for one in found[:MAX_FAULTS]]
    more = [("body", f"has {len(found) - MAX_FAULTS} more faults")] if len(found) > MAX_FAULTS else []
    return render(InvalidRequest.from_faults(limit_faults([*faults, *more])), request.url.path)


def _message(fault: Mapping[str, Any], shape: object) -> str:
    if fault["type"] == "extra_forbidden":
        _, *above, name = fault["loc"]
        return unknown_field(str(name), fields_at(shape, above))
    if fault["type"] == "json_invalid":
        return str(fault["ctx"]["error"])
    return str(fault["msg"]).removeprefix("Value error, ")


def _field(where: Sequence[int | str]) -> str:
    # FastAPI puts the location first (body, query, path); for broken JSON only the offset follows.
    inner = [str(part) for part in where[1:] if not isinstance(part, int) or len(where) > 2]
    return ".".join(inner) or str(where[0])


async def _on_database_error(request: Request, error: Exception) -> Response:
    return database_failed(error, request.url.path)


async def _on_crash(request: Request, error: Exception) -> Response:
    log.error("request_crashed", path=request.url.path, error=repr(error))
    wrapped = RequestError("the host failed to answer; its log says why", code="internal")
    wrapped.status = 500
    return render(wrapped, request.url.path)


_HANDLERS: dict[type[Exception], Callable[[Request, Exception], Awaitable[Response]]] = {
    RequestError: _on_request_error,
    HTTPException: _on_http_exception,
    RequestValidationError: _on_invalid,
    SQLAlchemyError: _on_database_error,
}
