"""The errors of the API: status, type, code and words."""

from __future__ import annotations

import itertools
from typing import Any

from ..provider import Fail, WireReply, json_reply, whole_reply

_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
_WORDS = {
    401: ("Incorrect API key provided.", "invalid_api_key"),
    429: ("Rate limit reached for requests. Please try again in 1s.", "rate_limit_exceeded"),
    500: ("The server had an error while processing your request. Sorry about that!", "server_error"),
    503: ("The engine is currently overloaded, please try again later.", "server_error"),
}
_numbers = itertools.count(1)


class Refusal(ValueError):
    """A request that the API refuses."""

    def __init__(self, message: str, param: str | None = None, code: str | None = None, status: int = 400) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code
        self.status = status


def error_body(status: int, message: str, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    kind = _TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def reply_headers() -> tuple[str, ...]:
    """Return the headers that every reply has."""
    return (f"x-request-id: req_{next(_numbers):032x}", "openai-version: 2020-10-01")


def refusal_reply(refusal: ValueError) -> WireReply:
    """Return the reply to a request that was refused."""
    if not isinstance(refusal, Refusal):
        return [json_reply(400, error_body(400, str(refusal)), *reply_headers())]
    body = error_body(refusal.status, refusal.message, refusal.param, refusal.code)
    return [json_reply(refusal.status, body, *reply_headers())]


def failure_reply(step: Fail) -> bytes:
    """Return the error that a step asks for, in the API's words unless the step has others."""
    headers = reply_headers() if step.retry_after is None else (*reply_headers(), f"retry-after: {step.retry_after}")
    if step.body is not None:
        return whole_reply(step.status, step.body.encode(), "application/json", *headers)
    message = step.message
    code = step.code
    if step.message == Fail().message and step.status in _WORDS:
        message = _WORDS[step.status][0]
        code = step.code or _WORDS[step.status][1]
    return json_reply(step.status, error_body(step.status, message, None, code), *headers)
