"""Errors as problem+json (RFC 9457) with a stable code, for guest and host."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from pydantic_core import to_json
from starlette.responses import Response

from ..errors import InvalidRequest, RequestError
from ..protocol import PROBLEM_JSON, FieldFault, Problem, limit_faults


def problem_response(
    status: int, code: str, detail: str, instance: str, *, headers: Mapping[str, str] | None = None, **extra: Any
) -> Response:
    """A problem+json response; `extra` become members beside the usual ones."""
    title = HTTPStatus(status).phrase
    body = Problem(title=title, status=status, detail=detail, instance=instance, code=code, **extra).body()
    return Response(to_json(body), status, headers, media_type=PROBLEM_JSON)


def error_response(error: RequestError, instance: str) -> Response:
    """The response for an error that the caller can correct, with the faults of its fields."""
    extra = dict(error.extra)
    if isinstance(error, InvalidRequest) and error.faults:
        extra["errors"] = [FieldFault(field=field, message=message) for field, message in limit_faults(error.faults)]
    return problem_response(error.status, error.code, error.message, instance, headers=error.headers, **extra)
