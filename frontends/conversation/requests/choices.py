"""What a press or a text means for an approval or a question: pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from agent_client.chat import items
from agent_common.line_text import first_visible
from agent_common.protocol import ApprovalScope, is_object, read_typed_decision

from ...store import StoredRequest

Decision = Literal["once", "always", "reject"]
REASON_CHARACTERS = 2000
FOR_AGENT = "agent"
"""The end of the data of the button for `always` with the scope `agent`."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Decides a request: an approval by `decision`, a question by `answers`, of which there is one for each part."""

    decision: Decision | None = None
    reason: str | None = None
    scope: ApprovalScope | None = None
    """For what `always` holds."""
    answers: Sequence[Sequence[str]] = ()


@dataclass(frozen=True, slots=True)
class Progress:
    """A question is answered in part: the answers so far, and the options that are picked of the next part."""

    answers: Sequence[Sequence[str]]
    picked: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class AskReason:
    """The next message of the person is the reason for a rejection."""


Choice = Answer | Progress | AskReason


@dataclass(frozen=True, slots=True)
class Asked:
    """One part of a question, read with care: a model has written it."""

    text: str
    header: str = ""
    options: Sequence[tuple[str, str]] = ()
    """Label and description."""
    multiple: bool = False


def asked_of(request: StoredRequest) -> list[Asked]:
    """Return the parts of a question; at least one."""
    return [_asked(raw) for raw in items(request.input.get("questions"))] or [Asked("?")]


def _asked(raw: Any) -> Asked:
    if not is_object(raw):
        return Asked(str(raw))
    options = [
        (str(one.get("label", "")), str(one.get("description") or "")) if is_object(one) else (str(one), "")
        for one in items(raw.get("options"))
    ]
    return Asked(str(raw.get("question", "")), str(raw.get("header") or ""), options, raw.get("multi_select") is True)


def choice_of_press(request: StoredRequest, word: str) -> Choice | None:
    """Return what a button means; None for one that the request does not have. `word` is the end of its data."""
    if request.kind == "approval":
        return _approval_press(request, word)
    part, _, rest = word.partition(".")
    number = len(request.answers)
    if part != str(number):  # a press on how the message looked before
        return None
    asked = asked_of(request)[number]
    if rest == "done":
        return _answered(request, [asked.options[index][0] for index in request.picked]) if request.picked else None
    if not (rest.isascii() and rest.isdecimal() and len(rest) < 4 and int(rest) < len(asked.options)):
        return None
    if not asked.multiple:
        return _answered(request, [asked.options[int(rest)][0]])
    return Progress(request.answers, sorted(set(request.picked) ^ {int(rest)}))


def lacks_pick(request: StoredRequest, word: str) -> bool:
    """Whether a press ends a choice of several options of which none is picked."""
    if request.kind != "question" or word != f"{len(request.answers)}.done":
        return False
    return asked_of(request)[len(request.answers)].multiple and not request.picked


def _approval_press(request: StoredRequest, word: str) -> Choice | None:
    match word:
        case "once" | "reject":
            return Answer(word)
        case "always" if request.always:
            return Answer("always", scope="session")
        case _ if word == FOR_AGENT and request.always and request.agent:
            return Answer("always", scope="agent")
        case "reason":
            return AskReason()
        case _:
            return None


def choice_of_text(request: StoredRequest, text: str) -> Choice | None:
    """Return what a message means for the request; None if it is no answer to it. It decides an approval only with the
    approval's code."""
    text = text.strip()
    if first_visible(text) is None:
        return None
    if request.kind == "question":
        return _answered(request, _picked(asked_of(request)[len(request.answers)], text))
    typed = read_typed_decision(text)
    if typed is None or typed.code != request.code:
        return None
    return Answer("once") if typed.approved else Answer("reject", typed.reason)


def _answered(request: StoredRequest, texts: Sequence[str]) -> Choice:
    answers = [*request.answers, [*texts]]
    return Answer(answers=answers) if len(answers) == len(asked_of(request)) else Progress(answers)


def _picked(asked: Asked, text: str) -> list[str]:
    """Return the labels that a text names, by label or number, or else the text itself."""
    pieces = [piece.strip() for piece in text.split(",")] if asked.multiple else [text]
    found = [label for piece in pieces if piece and (label := _label(asked, piece)) is not None]
    return list(dict.fromkeys(found)) if found and len(found) == len([one for one in pieces if one]) else [text]


def _label(asked: Asked, piece: str) -> str | None:
    labels = [label for label, _ in asked.options]
    number = piece.rstrip(".)")
    if number.isascii() and number.isdecimal() and len(number) < 3 and 0 < int(number) <= len(labels):
        return labels[int(number) - 1]
    return next((label for label in labels if label.strip().casefold() == piece.casefold()), None)
