"""The questions and approvals that a turn waits for, as read from its recorded reply."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from agent_common.protocol import ApprovalScope

from ...sessions import approval_id, approvals_shown, tool_name

QUESTION_TOOL = "question"
"""The tool that asks a person questions."""

Outcome = Literal["answered", "expired", "cancelled"]
"""How a request stopped waiting: by an answer, at its deadline, or because its turn was stopped."""


@dataclass(frozen=True, slots=True)
class PendingRequest:
    """One call that needs a person's answer to continue."""

    id: str
    """The id that an answer names: of the call for a question, of the approval for an approval. Both are used once in a
    session."""
    kind: Literal["question", "approval"]
    call_id: str
    tool: str
    input: dict[str, Any]
    code: str | None = None
    """Of an approval: what an answer in plain text repeats. None: it was asked for by an earlier version."""
    reason: str = ""
    agent: str | None = None
    """Of an approval: the agent that asks. None: it was asked for by an earlier version."""
    always_rules: Sequence[dict[str, Any]] | None = None
    """The rules that the decision `always` adds; None: one that allows all calls of the tool."""

    @property
    def rules(self) -> Sequence[dict[str, Any]]:
        if self.always_rules is None:
            return [{"permission": self.tool, "pattern": "*", "action": "allow"}]
        return self.always_rules

    @property
    def questions(self) -> list[dict[str, Any]]:
        return self.input.get("questions", [])

    def resolved_facts(
        self, outcome: Outcome, decision: str | None = None, scope: ApprovalScope = "session"
    ) -> dict[str, str]:
        """Return what the event about the end of its wait says; of the decision `always` also for what it holds."""
        facts = {"id": self.id, "kind": self.kind, "outcome": outcome}
        if decision is None:
            return facts
        return {**facts, "decision": decision} | ({"scope": scope} if decision == "always" else {})

    def serialize(self) -> dict[str, Any]:
        """Return the request as JSON for callers."""
        what: dict[str, Any] = {"questions": self.questions}
        if self.kind == "approval":
            what = {"tool": self.tool, "input": self.input, "always": list(self.rules)}
            if self.code is not None:
                what["code"] = self.code
            if self.agent is not None:
                what["agent"] = self.agent
            if self.reason:
                what["reason"] = self.reason
        return {"id": self.id, "kind": self.kind, "tool_call_id": self.call_id, **what}


def pending_requests_of(reply_id: str, parts: Sequence[dict[str, Any]]) -> dict[str, PendingRequest]:
    """Return the open requests of a recorded reply by id."""
    shown = approvals_shown(parts)
    found = [_pending_request(reply_id, part, shown) for part in parts]
    return {wait.id: wait for wait in found if wait is not None}


def _pending_request(reply_id: str, part: dict[str, Any], shown: dict[str, dict[str, Any]]) -> PendingRequest | None:
    name = tool_name(part)
    state = part.get("state")
    if name is not None and state == "approval-requested":
        call_id = part["toolCallId"]
        about = shown.get(part["approval"]["id"], {})
        return PendingRequest(
            approval_id(reply_id, call_id, name, part["input"], about),
            "approval",
            call_id,
            name,
            part["input"],
            about.get("code"),
            about.get("reason", ""),
            about.get("agent"),
            about.get("always"),
        )
    if name == QUESTION_TOOL and state == "input-available":
        return PendingRequest(part["toolCallId"], "question", part["toolCallId"], name, part["input"])
    return None
