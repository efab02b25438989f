"""The log lines of model calls: one for each that went to a provider, and of those that were refused one a second."""

from __future__ import annotations

import structlog

from agent_common.clock import Clock
from agent_common.telemetry import Seldom

from ...errors import RequestError
from .ledger import CallRecord

log = structlog.get_logger(__name__)
REFUSALS_EVERY = 1.0
"""Seconds between two lines about refusals of one agent: it may ask as often as it likes."""


def log_call(call: CallRecord, code: str | None, error: str | None) -> None:
    """One call that has ended. `request_id` is also in the agent's own line, and in the ledger."""
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
        "seconds": call.duration_ms / 1000,
    }
    known = {name: value for name, value in facts.items() if value is not None}
    if call.status in ("failed", "dropped"):
        log.warning("model_call_failed", **known)
    else:
        log.info("model_call_ended", **known)


class RefusalLog:
    """Calls that never reached a provider."""

    def __init__(self, clock: Clock) -> None:
        self._seldom = Seldom(REFUSALS_EVERY, clock.monotonic)  # agents hold tokens: the operator bounds their number

    def log(self, agent_id: str, error: RequestError) -> None:
        skipped = self._seldom.count_event(agent_id)
        if skipped is None:
            return
        more = {"others_since": skipped} if skipped else {}
        facts = {"status": error.status, "code": error.code, "error": error.message}
        log.warning("model_call_refused", agent_id=agent_id, **facts, **more)
