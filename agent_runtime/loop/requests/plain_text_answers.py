"""Plain-text answers: interpret a chat message as the answer to the one request that its session waits for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pydantic_core import to_json

from ...context import user_text
from ...errors import Conflict
from ..core.pending_requests import PendingRequest
from ..core.turn_state import Turn
from .human_answers import Decision, HumanAnswer

_DECISIONS: dict[str, Decision] = {
    **dict.fromkeys(("yes", "y", "ok", "once"), "once"),
    "always": "always",
    **dict.fromkeys(("no", "n", "reject"), "reject"),
}
_REJECT_WITH_REASON = re.compile(r"(?:no|reject)\s*[,.:;!]+\s*(?P<reason>\S.*)", re.IGNORECASE | re.DOTALL)
_REASON_CHARACTERS = 2000


def parse_plain_text_answer(turn: Turn, parts: Sequence[dict[str, Any]]) -> HumanAnswer:
    """Return the message as the answer to the one request that `turn` waits for. Raises Conflict `not_an_answer`, with
    the open requests, if there are several or the text does not answer it."""
    text = user_text(parts).strip()
    if len(turn.human_wait.requests) > 1:
        raise _refused(turn, f"{len(turn.human_wait.requests)} requests are open: answer each by its id")
    [wait] = turn.human_wait.requests.values()
    if wait.kind == "approval":
        return _decision(turn, wait, text)
    if len(wait.questions) != 1:
        shape = to_json({"id": wait.id, "answers": [["..."] for _ in wait.questions]}).decode()
        raise _refused(turn, f"{len(wait.questions)} questions are open: answer them together, as {shape}")
    return HumanAnswer(wait.id, answers=[_choice(wait.questions[0], text)])


def require_same_agent_and_model(turn: Turn, *, agent: str | None, model: str | None) -> None:
    """Raise Conflict unless the answer is for the agent and model of the turn that asked; None means the same ones."""
    if agent not in (None, turn.request.agent):
        raise _refused(turn, f"agent {turn.request.agent} waits for the answer, so agent {agent} cannot take it")
    if model not in (None, turn.model):
        raise _refused(turn, f"the turn that waits for the answer uses model {turn.model}, not {model}")


def _decision(turn: Turn, request: PendingRequest, text: str) -> HumanAnswer:
    if (decision := _DECISIONS.get(text.rstrip(".! ").lower())) is not None:
        return HumanAnswer(request.id, decision=decision)
    if (no := _REJECT_WITH_REASON.fullmatch(text)) is not None:
        return HumanAnswer(request.id, decision="reject", reason=no["reason"][:_REASON_CHARACTERS])
    raise _refused(turn, f"a call of {request.tool} waits for approval: answer yes, no or always")


def _choice(question: dict[str, Any], text: str) -> list[str]:
    """Return the option labels that the text picks, by label or number, or else the text itself."""
    labels = [option["label"] for option in question.get("options", ())]
    picked = _picked(labels, text)
    if picked is None and question.get("multi_select"):
        several = [_picked(labels, one) for one in text.split(",") if one.strip()]
        found = [one for one in several if one is not None]
        if found and len(found) == len(several):
            return list(dict.fromkeys(found))
    return [picked or text]


def _picked(labels: Sequence[str], text: str) -> str | None:
    answer = text.strip().lower()
    for label in labels:
        if label.strip().lower() == answer:
            return label
    number = answer.rstrip(".)")
    if number.isascii() and number.isdecimal() and len(number) < 3 and 0 < int(number) <= len(labels):
        return labels[int(number) - 1]
    return None


def _refused(turn: Turn, why: str) -> Conflict:
    advice = f"POST /chat/{turn.request.session_name}/answer; on_busy: queue has the message wait its turn"
    return Conflict(f"{why} ({advice})", code="not_an_answer", pending=turn.pending())
