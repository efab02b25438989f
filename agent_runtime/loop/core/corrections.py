"""Corrections that people give without calling them so: a message that contradicts, a call that is rejected with a
reason. Only a person's own words count, never those of a task, a tool or an agent."""

from __future__ import annotations

from typing import Any

from pydantic_core import to_json

from ...context import View, user_text
from ...learnings import corrects, may_correct
from ...ports import Correction, Learnings
from .turn_state import Turn

LEAD = 200
"""Characters of what a person had before him that are worth keeping."""


def overhear(turn: Turn, view: View | None, learnings: Learnings) -> None:
    """Notes a message that corrects what was said before it; `view` shows that, none when it has just been said."""
    if not turn.interactive or turn.begun or turn.parent is not None:
        return
    said = user_text(turn.parts)
    if not may_correct(said):
        return
    answered = view.answered if view is not None else ""
    if answered is not None and corrects(said, answered):
        learnings.corrected(_correction(turn, said, "person (message)", answered))


def rejected(turn: Turn, tool: str, arguments: dict[str, Any], reason: str | None, learnings: Learnings) -> None:
    """Notes why a person has rejected a call; without a reason there is nothing to learn."""
    if reason and reason.strip():
        call = f"{tool} {to_json(arguments).decode()}"
        learnings.corrected(_correction(turn, reason, "person (rejected a call)", call))


def _correction(turn: Turn, text: str, source: Any, before: str) -> Correction:
    conversation = turn.conversation
    return Correction(text, source, conversation.principal, conversation.id, answer_to=before[:LEAD])
