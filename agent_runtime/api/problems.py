"""The one place that converts errors to HTTP: problem+json with a stable code, and no tracebacks."""

from __future__ import annotations

import secrets
from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.responses import Response
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from agent_common.api import BodyRefused, error_response, problem_response
from agent_common.protocol import validation_faults
from agent_common.telemetry import logger

from ..errors import BrokenRecord, InvalidRequest, MeshUnavailable, ModelError, RequestError, StoreError

log = logger(__name__)
_CODES = {404: "not_found", 405: "method_not_allowed"}


def install_handlers(app: FastAPI) -> None:
    """Register a handler for every kind of error."""
    app.add_exception_handler(RequestError, _refused)
    app.add_exception_handler(ValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(StoreError, _store)
    app.add_exception_handler(ModelError, _model)
    app.add_exception_handler(MeshUnavailable, _mesh)
    app.add_exception_handler(Exception, _unexpected)


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestError)  # noqa: S101
    if error.status >= HTTPStatus.INTERNAL_SERVER_ERROR or error.status == HTTPStatus.TOO_MANY_REQUESTS:
        _log_failure(request, error.status, error.code, error)
    return error_response(error, request.url.path)


def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, ValidationError)  # noqa: S101
    return _refused(request, InvalidRequest.from_faults(validation_faults(error)))


def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101
    code = error.code if isinstance(error, BodyRefused) else _CODES.get(error.status_code, "http_error")
    headers = dict(error.headers) if error.headers else None
    detail = str(error.detail)
    if code in ("not_found", "method_not_allowed"):
        detail = f"there is no route {request.method} {request.url.path}; GET /openapi.json lists all routes"
        if allowed := (error.headers or {}).get("Allow"):
            detail = f"{request.url.path} takes {allowed}, not {request.method}; GET /openapi.json lists all routes"
    return problem_response(error.status_code, code, detail, request.url.path, headers=headers)


def _store(request: Request, error: Exception) -> Response:
    if isinstance(error, BrokenRecord):  # asking again does not help
        _log_failure(request, 500, "broken_record", error)
        return problem_response(500, "broken_record", str(error), request.url.path)
    _log_failure(request, 503, "store_unavailable", error)
    return problem_response(503, "store_unavailable", str(error), request.url.path, headers={"Retry-After": "5"})


def _model(request: Request, error: Exception) -> Response:
    assert isinstance(error, ModelError)  # noqa: S101
    _log_failure(request, 502, error.code, error)
    return problem_response(502, error.code, str(error), request.url.path)


def _mesh(request: Request, error: Exception) -> Response:
    _log_failure(request, 503, "mesh_unavailable", error)
    return problem_response(503, "mesh_unavailable", str(error), request.url.path, headers={"Retry-After": "5"})


def _log_failure(request: Request, status: int, code: str, error: Exception) -> None:
    log.warning("request failed", status=status, code=code, path=request.url.path, error=str(error))


def _unexpected(request: Request, error: Exception) -> Response:
    error_id = secrets.token_hex(6)
    log.error("unexpected error", error_id=error_id, path=request.url.path, exc_info=error)
    return problem_response(500, "internal_error", f"unexpected error {error_id}; see the log", request.url.path)
