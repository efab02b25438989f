"""Detect implicit corrections: a message that contradicts the previous answer, and a call rejected with a reason. Only
a person's own words count, never those of a task, a tool or an agent."""

from __future__ import annotations

from typing import Any

from pydantic_core import to_json

from ...context import View, user_text
from ...learnings import is_correction
from ...ports import Correction, Learnings
from .turn_state import Turn

MAX_ANSWER_CHARACTERS = 200
"""Maximum characters of the corrected answer or call that are stored with a correction."""


def detect_correction(turn: Turn, view: View | None, learnings: Learnings) -> None:
    """Record the turn's message if it corrects the answer before it.

    `view` holds that answer; None for a message that has joined a running turn.
    """
    if not turn.request.interactive or turn.has_run_before or turn.request.parent is not None:
        return
    message = user_text(turn.request.parts)
    answered = view.last_answer if view is not None else ""
    if answered is not None and is_correction(message, answered):
        learnings.record_correction(_correction(turn, message, "person (message)", answered))


def record_rejection(
    turn: Turn, tool: str, arguments: dict[str, Any], reason: str | None, learnings: Learnings
) -> None:
    """Record why a person rejected a call. Without a reason there is nothing to learn."""
    if reason and reason.strip():
        call = f"{tool} {to_json(arguments).decode()}"
        learnings.record_correction(_correction(turn, reason, "person (rejected a call)", call))


def _correction(turn: Turn, text: str, source: Any, before: str) -> Correction:
    session = turn.session
    return Correction(text, source, session.principal, session.id, answer_to=before[:MAX_ANSWER_CHARACTERS])
