"""The refusals of the Bot API."""

from __future__ import annotations

from typing import Any


class ApiError(Exception):
    """An answer that is not `ok`."""

    def __init__(self, code: int, description: str, **parameters: Any) -> None:
        super().__init__(description)
        self.code = code
        self.description = description
        self.parameters = parameters

    def to_json(self) -> dict[str, Any]:
        """Return the body of the answer."""
        body = {"ok": False, "error_code": self.code, "description": self.description}
        return {**body, "parameters": self.parameters} if self.parameters else body


def bad_request(reason: str) -> ApiError:
    return ApiError(400, f"Bad Request: {reason}")


def forbidden(reason: str) -> ApiError:
    return ApiError(403, f"Forbidden: {reason}")


def conflict(reason: str) -> ApiError:
    return ApiError(409, f"Conflict: {reason}")


def too_many_requests(retry_after: int) -> ApiError:
    return ApiError(429, f"Too Many Requests: retry after {retry_after}", retry_after=retry_after)
