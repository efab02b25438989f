"""The one log line that each turn ends with."""

from __future__ import annotations

from typing import Any

from agent_common.telemetry import logger

from ..core.turn_state import Turn

log = logger(__name__)


def log_end(turn: Turn) -> None:
    """Log how a turn or task ended; a failure is logged as a warning."""
    outcome = turn.end.outcome
    if outcome is None:
        return
    facts: dict[str, Any] = {
        "status": outcome.status,
        "code": outcome.error_code,
        "limit": outcome.limit,
        "error": outcome.error,
        "session_id": turn.session.id,
        "message_id": turn.message_id,
        "task_id": turn.request.task_id,
        "principal": turn.session.principal,
        "agent": turn.request.agent,
        "model": turn.model,
        "steps": turn.budget.steps,
        "tokens": turn.budget.tokens,
        "seconds": turn.end.duration_ms / 1000,
    }
    known = {name: value for name, value in facts.items() if value is not None}
    write = log.warning if outcome.in_error else log.info
    write("task ended" if turn.request.task_id else "turn ended", **known)
