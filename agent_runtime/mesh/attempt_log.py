"""The log line that ends each attempt of a model call."""

from __future__ import annotations

import time
from typing import Any

from agent_common.net import HttpResponse
from agent_common.telemetry import logger

from ..errors import ModelError
from ..ports import Completion, ModelRequest

log = logger(__name__)


class AttemptLog:
    """Collects the facts of one attempt and logs how it ended."""

    def __init__(self, request: ModelRequest, attempt: int) -> None:
        self._began = time.monotonic()
        ids = {"session_id": request.session_id, "message_id": request.message_id}
        self._facts: dict[str, Any] = {"model": request.model, "attempt": attempt, **ids}

    def add_response(self, reply: HttpResponse) -> None:
        """Add the status, and the host's request id, which identifies the host's log line of this call."""
        self._facts |= {"http_status": reply.status, "request_id": reply.headers.get("x-request-id")}

    def log_completion(self, completion: Completion) -> None:
        used = {"input": completion.usage.input, "output": completion.usage.output}
        log.info("model call ended", **self._done(), stop_reason=completion.stop_reason, **used)

    def log_failure(self, error: ModelError, delay: float | None) -> None:
        why = {"code": error.code, "error": error.message, "retry_after": error.retry_after, "again_in": delay}
        log.warning("model call failed", **self._done(), **why)

    def _done(self) -> dict[str, Any]:
        return {**self._facts, "seconds": round(time.monotonic() - self._began, 3)}
