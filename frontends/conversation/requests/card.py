"""The message of an approval or a question: what would be done, who asks, the buttons, and how it was decided: pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from agent_client.chat import items
from agent_common.line_text import escape_invisible
from agent_common.protocol import how_to_decide, is_object

from ...platform import Button, Piece
from ...store import StoredRequest
from ..words import code, exact, fenced, one_line, plain
from .choices import FOR_AGENT, Asked, asked_of

MAX_MESSAGES = 3
LABEL_CHARACTERS = 48
LINE_CHARACTERS = 80
"""Longest argument that is shown beside its name."""
WHOLE = 1 << 20
"""Characters of what is never cut: a card that becomes too long by it offers no permission."""
MOST = 20_000
"""Characters that are split into messages: more than `MAX_MESSAGES` of any platform hold. To split megabytes takes
seconds, in which nothing else goes on."""
MAX_OPTIONS = 20
"""Options that have a button; others can be written."""
MAX_ROWS = 5
MAX_IN_A_ROW = 5
"""What every platform shows."""
PREFIX = "a"
READ_FIRST = "Read all of it before you allow it: `agent pending` on a computer shows it."
MAX_LISTED = 100
"""Options of a question that are shown in words."""
_CUT = f"⚠️ **There is more than fits here.** {READ_FIRST}"


def card(request: StoredRequest, split: Callable[[str], list[str]]) -> list[Piece]:
    """Return the messages for a request as it is now. The last one has the buttons."""
    shown, whole = _bounded(request)
    document = _document(shown)
    texts = split(document[:MOST])
    end = f"**{request.verdict}**" if request.state == "decided" else ""
    if len(texts) > MAX_MESSAGES or not whole or len(document) > MOST:
        texts = [*texts[: MAX_MESSAGES - 1], _CUT]
    if end:
        texts = [*texts[:-1], *split(f"{texts[-1]}\n\n{end}")]
    buttons = _buttons(request, cut=_CUT in texts) if request.state == "open" else ()
    return [*map(Piece, texts[:-1]), Piece(texts[-1], buttons)]


def _bounded(request: StoredRequest) -> tuple[StoredRequest, bool]:
    """Return an approval with no more of its call than fits, and whether that is all. Of a question each part is short
    by itself."""
    if request.kind == "question":
        return request, True
    left = _Allowance(MOST)
    tool = left.part_of(request.tool)
    given = left.part_of(request.input)
    shown = replace(
        request,
        tool=tool,
        input=given if is_object(given) else {},
        always=left.part_of([*request.always]),
    )
    return shown, left.characters >= 0


class _Allowance:
    """Takes the beginning of values, until so many characters are used. Less than none are left if something is
    missing."""

    def __init__(self, characters: int) -> None:
        self.characters = characters

    def part_of(self, value: Any) -> Any:
        """Return the value, or its beginning if there is no room for all of it."""
        if isinstance(value, str):
            part = value[: max(self.characters, 0)]
            self.characters -= len(value)
            return part
        if is_object(value):
            self.characters -= 1
            return {self.part_of(name): self.part_of(inner) for name, inner in value.items() if self.characters >= 0}
        if found := items(value):
            self.characters -= 1
            return [self.part_of(inner) for inner in found if self.characters >= 0]
        self.characters -= len(repr(value))
        return value


def is_offered(request: StoredRequest, word: str, split: Callable[[str], list[str]]) -> bool:
    """Tell whether the message has a button for this: one that does not show all of a call offers no permission."""
    rows = card(request, split)[-1].buttons
    return any(button.data == _data(request, word) for row in rows for button in row)


def _document(request: StoredRequest) -> str:
    origin = f"*{plain(request.origin, 150)}*" if request.origin else ""
    texts = _approval(request) if request.kind == "approval" else _question(request)
    return "\n\n".join(filter(None, (origin, *texts)))


def _approval(request: StoredRequest) -> Sequence[str]:
    """Words are asked for as a reply: in a group nothing else reaches the bot but what names it."""
    always = ", ".join(
        code(exact(f"{rule.get('permission')} {rule.get('pattern')}"), WHOLE)
        for rule in request.always
        if is_object(rule)
    )
    return (
        f"🔐 **Allow {plain(exact(request.tool), WHOLE)}?**",
        _arguments(request.tool, request.input),
        f"*{plain(request.reason, 300)}*" if request.reason else "",
        f"Or {how_to_decide(request.code, 'reply')}."
        if request.code and request.state == "open" and not request.reason_from
        else "",
        f"*Always* would allow {always}.{_whose_all(request)}" if always and request.state == "open" else "",
        "Reply to this message with the reason." if request.reason_from and request.state == "open" else "",
    )


def _whose_all(request: StoredRequest) -> str:
    """Return whose conversations the button means that says all."""
    if not request.agent:
        return ""
    return " *All* are yours." if request.user == request.requester else " *All* are this group's."


def _arguments(tool: str, given: dict[str, Any]) -> str:
    """Return the arguments as a person reads them: a command as it is, a block for what has several lines."""
    if tool == "bash" and isinstance(given.get("command"), str):
        rest = {name: value for name, value in given.items() if name not in ("command", "description")}
        return "\n\n".join(filter(None, (fenced(given["command"], "sh"), _arguments("", rest))))
    pieces: list[str] = []
    for name, value in given.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        label = f"**{plain(exact(str(name)), WHOLE)}**"
        shown = exact(text)
        if len(text) > LINE_CHARACTERS or one_line(text, WHOLE) != escape_invisible(text):
            pieces.append(f"{label}\n\n{fenced(text)}")
        else:
            pieces.append(f"{label}: {code(shown, WHOLE) or '(empty)'}")
    return "\n\n".join(pieces)


def _question(request: StoredRequest) -> Sequence[str]:
    parts = asked_of(request)
    number = min(len(request.answers), len(parts) - 1)
    asked = parts[number]
    options = "\n".join(
        f"{index}. **{plain(label, 200)}**" + (f": {plain(about, 300)}" if about else "")
        for index, (label, about) in enumerate(asked.options[:MAX_LISTED], 1)
        if about or len(label) > LABEL_CHARACTERS or _are_many(asked)
    )
    answered = "\n".join(
        f"- {plain(part.text, 150)} → **{plain(', '.join(texts), 150)}**"
        for part, texts in zip(parts, request.answers, strict=False)
    )
    count = f"({number + 1} of {len(parts)}) " if len(parts) > 1 else ""
    free = "Reply to this message with your answer."
    how = "Press a button, or reply with an answer of your own." if asked.options else free
    return (
        answered,
        f"❓ {count}**{plain(asked.text, 1500)}**",
        options,
        f"*{how}*" if request.state == "open" else "",
    )


def _buttons(request: StoredRequest, *, cut: bool) -> Sequence[Sequence[Button]]:
    if request.kind == "question":
        parts = asked_of(request)
        return _option_buttons(request, parts[min(len(request.answers), len(parts) - 1)])
    allow = [[Button("✅ Once", _data(request, "once"))]]
    if request.always:
        allow.append([Button("♾ Always in this conversation", _data(request, "always"))])
    if request.always and request.agent:
        label = f"♾ Always in all with agent {one_line(request.agent, 20)}"
        allow.append([Button(label, _data(request, FOR_AGENT))])
    reject = [Button("❌ Reject", _data(request, "reject")), Button("✍️ Reject, because…", _data(request, "reason"))]
    return [reject] if cut else [*allow, reject]


def _option_buttons(request: StoredRequest, asked: Asked) -> Sequence[Sequence[Button]]:
    """Return a button for each option: one in a row, or several that have only the number if there are many."""
    part = len(request.answers)
    many = _are_many(asked)
    buttons: list[Button] = []
    for number, (label, _) in enumerate(asked.options[:MAX_OPTIONS]):
        mark = "☑ " if number in request.picked else "☐ " if asked.multiple else ""
        shown = "" if many else one_line(label, LABEL_CHARACTERS)
        buttons.append(Button(f"{mark}{shown or number + 1}", _data(request, f"{part}.{number}")))
    if asked.multiple:
        buttons.append(Button("Done", _data(request, f"{part}.done")))
    in_a_row = MAX_IN_A_ROW if many else 1
    return [buttons[at : at + in_a_row] for at in range(0, len(buttons), in_a_row)]


def _are_many(asked: Asked) -> bool:
    """Whether the options do not fit into the rows, with one for `Done`."""
    return len(asked.options) + asked.multiple > MAX_ROWS


def _data(request: StoredRequest, word: str) -> str:
    return f"{PREFIX}:{request.token}:{word}"
