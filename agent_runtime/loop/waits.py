"""What a turn waits for when only a person can help: questions and approvals, read from its record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..sessions import tool_name

QUESTION = "question"
"""The tool that asks."""


@dataclass(frozen=True, slots=True)
class Wait:
    """One call that cannot go on without a person."""

    id: str
    """What an answer names: the call's id for a question, the approval's for an approval."""
    kind: Literal["question", "approval"]
    call_id: str
    tool: str
    input: dict[str, Any]

    @property
    def questions(self) -> list[dict[str, Any]]:
        return self.input.get("questions", [])

    def shown(self) -> dict[str, Any]:
        """As callers see it."""
        what = {"questions": self.questions} if self.kind == "question" else {"tool": self.tool, "input": self.input}
        return {"id": self.id, "kind": self.kind, "tool_call_id": self.call_id, **what}


def waits_of(parts: Sequence[dict[str, Any]]) -> dict[str, Wait]:
    """The open waits of a recorded reply, by id."""
    found = [_wait(part) for part in parts]
    return {wait.id: wait for wait in found if wait is not None}


def _wait(part: dict[str, Any]) -> Wait | None:
    name, state = tool_name(part), part.get("state")
    if name is not None and state == "approval-requested":
        return Wait(part["approval"]["id"], "approval", part["toolCallId"], name, part["input"])
    if name == QUESTION and state == "input-available":
        return Wait(part["toolCallId"], "question", part["toolCallId"], name, part["input"])
    return None
