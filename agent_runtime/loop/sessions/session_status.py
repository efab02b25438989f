"""Compute the status of a session, one of six states, from its turn and the ledger.

See docs/reference/sessions.md#how-it-stands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agent_common.protocol import SessionsQuery, SessionStatus

from ...sessions import SessionChoice
from ..core.turn_state import Turn
from ..limits.outcome import ERROR_STATUSES


def compute_session_status(turn: Turn | None, last: Mapping[str, Any] | None) -> SessionStatus:
    """Return the status of a session.

    `turn` is the session's current turn, running or first in line for a slot. `last` is the recorded outcome of the
    turn that ended last. After an error the session still accepts messages; the next one ends that state.
    """
    if turn is not None and turn.human_wait.requests:
        asked = any(wait.kind == "question" for wait in turn.human_wait.requests.values())
        state = "waiting_on_user_input" if asked else "waiting_on_approval"
        return SessionStatus(state=state, message_id=turn.request.message_name, pending=turn.pending())
    if turn is not None:
        return _at_work(turn)
    if last is not None and last.get("status") in ERROR_STATUSES:
        return SessionStatus(state="error", message=last.get("error"))
    return SessionStatus(state="idle")


def _at_work(turn: Turn) -> SessionStatus:
    return SessionStatus(
        state="retrying" if turn.retry.reason else "busy",
        attempt=turn.retry.attempt,
        message=turn.retry.reason,
        started_at=turn.start.at_ms,
        message_id=turn.request.message_name,
    )


def choose_sessions(query: SessionsQuery, turns: Mapping[str, Turn]) -> SessionChoice:
    """Return which sessions a query lists. `turns`: the current turn of each session that has one."""
    choice = SessionChoice(query.archived, query.ephemeral, error_statuses=ERROR_STATUSES)
    if query.state is None:
        return choice
    if query.state in ("idle", "error"):
        return replace(choice, without=turns.keys(), in_error=query.state == "error")
    states = {session_id: compute_session_status(turn, None).state for session_id, turn in turns.items()}
    waiting = query.state == "waiting"
    return replace(
        choice,
        only=[
            name
            for name, state in states.items()
            if state == query.state or (waiting and state in ("waiting_on_approval", "waiting_on_user_input"))
        ],
    )
