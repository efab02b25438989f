"""Log lines of model calls: one for each call to a provider, and at most one a second about refused calls."""

from __future__ import annotations

import structlog

from agent_common.clock import Clock
from agent_common.telemetry import Seldom

from ...errors import RequestError
from .ledger import CallRecord

log = structlog.get_logger(__name__)
REFUSALS_EVERY = 1.0
"""Seconds between two lines about refusals of one agent, because an agent may repeat a refused call without limit."""


def log_call(call: CallRecord, code: str | None, error: str | None) -> None:
    """Log a call that has ended. The agent's own log and the ledger have the same `request_id`."""
    facts = {
        "request_id": call.request_id,
        "agent_id": call.agent_id,
        "model": call.model,
        "provider": call.provider,
        "status": call.status,
        "code": code,
        "error": error,
        "http_status": call.http_status,
        "input": call.usage.input if call.usage else None,
        "output": call.usage.output if call.usage else None,
        "asked_model": call.asked_model,
        "fallback_reason": call.fallback_reason,
        "seconds": call.duration_ms / 1000,
    }
    known = {name: value for name, value in facts.items() if value is not None}
    if call.status in ("failed", "dropped"):
        log.warning("model_call_failed", **known)
    else:
        log.info("model_call_ended", **known)


class RefusalLog:
    """Logs calls that were refused before they reached a provider."""

    def __init__(self, clock: Clock) -> None:
        self._seldom = Seldom(REFUSALS_EVERY, clock.monotonic)  # bounded: only agents with a token get here

    def log(self, agent_id: str, error: RequestError) -> None:
        more = self._seldom.facts_of_event(agent_id)
        if more is None:
            return
        facts = {"status": error.status, "code": error.code, "error": error.message}
        log.warning("model_call_refused", agent_id=agent_id, **facts, **more)
