"""The errors of the API: status, type and words."""

from __future__ import annotations

import itertools
from typing import Any

from ..provider import Fail, WireReply, json_reply, whole_reply

TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_WORDS = {
    401: "invalid x-api-key",
    402: "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or "
    "purchase credits.",
    403: "Your API key does not have permission to use the specified resource.",
    413: "Request exceeds the maximum size",
    429: "This request would exceed your organization's rate limit of 50,000 input tokens per minute.",
    500: "Internal server error",
    504: "Request timed out.",
    529: "Overloaded",
}
_numbers = itertools.count(1)


class Refusal(ValueError):
    """A request that the API refuses."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.message = message
        self.status = status


def error_body(status: int, message: str, kind: str | None = None, request_id: str | None = None) -> dict[str, Any]:
    """Return the body of an error, which is also the payload of an `error` event."""
    error = {"type": kind or TYPES.get(status, "api_error"), "message": message}
    return {"type": "error", "error": error, "request_id": request_id}


def reply_headers(request_id: str) -> tuple[str, ...]:
    """Return the headers that every reply has."""
    return (f"request-id: {request_id}", "anthropic-organization-id: 00000000-0000-0000-0000-000000000000")


def new_request_id() -> str:
    return f"req_{next(_numbers):024d}"


def refusal_reply(refusal: ValueError) -> WireReply:
    """Return the reply to a request that was refused."""
    status = refusal.status if isinstance(refusal, Refusal) else 400
    request_id = new_request_id()
    body = error_body(status, str(refusal), request_id=request_id)
    return [json_reply(status, body, *reply_headers(request_id))]


def failure_reply(step: Fail) -> bytes:
    """Return the error that a step asks for, in the API's words unless the step has others."""
    request_id = new_request_id()
    headers = [*reply_headers(request_id), "x-should-retry: " + ("true" if step.status >= 429 else "false")]
    if step.retry_after is not None:
        headers.append(f"retry-after: {step.retry_after}")
    if step.status == 429:
        headers += ["anthropic-ratelimit-requests-limit: 50", "anthropic-ratelimit-requests-remaining: 0"]
    if step.body is not None:
        return whole_reply(step.status, step.body.encode(), "application/json", *headers)
    message = _WORDS.get(step.status, step.message) if step.message == Fail().message else step.message
    return json_reply(step.status, error_body(step.status, message, step.code, request_id), *headers)
