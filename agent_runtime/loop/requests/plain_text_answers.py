"""Plain-text answers: interpret a chat message as the answer to a request that its session waits for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pydantic_core import to_json

from agent_common.line_text import first_visible
from agent_common.protocol import how_to_decide, read_typed_decision

from ...context import user_text
from ...errors import Conflict
from ..core.pending_requests import PendingRequest
from ..core.turn_state import Turn
from .human_answers import HumanAnswer


def parse_plain_text_answer(turn: Turn, parts: Sequence[dict[str, Any]], sender: str | None) -> HumanAnswer:
    """Return the message as the answer to what `turn` waits for: to the approval whose code it names, or else to the
    one question. Raises Conflict, with the open requests: `not_an_answer` if the text answers none of them, and
    `wrong_sender` if the member of a group who was asked did not send it."""
    _require_sender(turn, sender)
    text = user_text(parts).strip()
    requests = turn.human_wait.requests.values()
    if (decided := _decision(requests, text, sender)) is not None:
        return decided
    approvals = [request for request in requests if request.kind == "approval"]
    if approvals:
        raise _refused(turn, "; ".join(map(_how_to_decide, approvals)))
    if len(requests) > 1:
        raise _refused(turn, f"{len(requests)} requests are open: answer each by its id")
    [question] = requests
    if len(question.questions) != 1:
        shape = to_json({"id": question.id, "answers": [["..."] for _ in question.questions]}).decode()
        raise _refused(turn, f"{len(question.questions)} questions are open: answer them together, as {shape}")
    if first_visible(text) is None:
        raise _refused(turn, "the message has no text")
    return HumanAnswer(question.id, answers=[_choice(question.questions[0], text)], sender=sender)


def require_same_agent_and_model(turn: Turn, *, agent: str | None, model: str | None) -> None:
    """Raise Conflict unless the answer is for the agent and model of the turn that asked; None means the same ones."""
    if agent not in (None, turn.request.agent):
        raise _refused(turn, f"agent {turn.request.agent} waits for the answer, so agent {agent} cannot take it")
    if model not in (None, turn.model):
        raise _refused(turn, f"the turn that waits for the answer uses model {turn.model}, not {model}")


def _require_sender(turn: Turn, sender: str | None) -> None:
    """Raise Conflict unless the sender is the one who was asked. Anybody of the principal was, if none was named."""
    asked = turn.request.sender
    if asked not in (None, sender):
        who = f"{sender} cannot answer" if sender else "the message must name its sender"
        raise Conflict(f"{asked} was asked, so {who}", code="wrong_sender", pending=turn.pending())


def _decision(requests: Iterable[PendingRequest], text: str, sender: str | None) -> HumanAnswer | None:
    """Return the decision on the approval whose code the text names; None if it names none."""
    typed = read_typed_decision(text)
    if typed is None:
        return None
    for request in requests:
        if request.code == typed.code:
            decision = "once" if typed.approved else "reject"
            return HumanAnswer(request.id, decision=decision, reason=typed.reason, sender=sender)
    return None


def _how_to_decide(request: PendingRequest) -> str:
    how = "answer it by its id" if request.code is None else how_to_decide(request.code)
    return f"a call of {request.tool} waits for approval: {how}"


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
