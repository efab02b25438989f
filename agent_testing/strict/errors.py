"""Refusals in the shape of each provider."""

from __future__ import annotations

from typing import Any

from ..provider import WireReply, json_reply
from .dialects import Dialect


class Refusal(ValueError):
    """A request that the provider refuses."""

    def __init__(self, message: str, param: str | None = None, code: str | None = None, status: int = 400) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code
        self.status = status


def refusal_reply(dialect: Dialect, refusal: ValueError) -> WireReply:
    status = refusal.status if isinstance(refusal, Refusal) else 400
    param, code = (refusal.param, refusal.code) if isinstance(refusal, Refusal) else (None, None)
    error: dict[str, Any] = {
        "message": str(refusal), "type": "invalid_request_error", "param": param, "code": code,
    }  # fmt: skip
    body: Any = {"error": error}
    if dialect.listed:
        body = [{"error": {"code": status, "message": str(refusal), "status": "INVALID_ARGUMENT"}}]
    return [json_reply(status, body)]
