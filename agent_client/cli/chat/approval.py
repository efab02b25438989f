"""The card of an approval: what would run, who asks, what `always` would allow and where, and the person's answer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from rich.console import Group, RenderableType
from rich.text import Text

from agent_common.protocol import ApprovalScope, is_object, read_typed_decision

from ... import Approval
from ..output import exact_line, exact_text, safe_json, safe_line
from .blocks import FileChange, change_lines, counted, difference
from .screen import Choice, Menu

MAX_CHANGED = 1000
ONCE: Final = "once"
ALWAYS: Final = "always"
REJECT: Final = "reject"
SCOPES: Sequence[ApprovalScope] = ("session", "agent")


@dataclass(frozen=True, slots=True)
class Decision:
    """What the person has decided."""

    word: Literal["once", "always", "reject"]
    reason: str | None = None
    scope: ApprovalScope | None = None
    """For what `always` holds."""


def approval_menu(approval: Approval, change: FileChange | None = None) -> tuple[Menu, list[Decision]]:
    """Return the card, and what each of its choices means."""
    decisions = [Decision(ONCE)]
    choices = [Choice("Yes, once")]
    if approval.always:
        for scope in SCOPES:
            decisions.append(Decision(ALWAYS, scope=scope))
            choices.append(Choice(f"Yes, and always {where(approval, scope)}:", rules_in_words(approval)))
    decisions.append(Decision(REJECT))
    choices.append(Choice("No, and tell the agent why"))
    keys = {"y": 0, "n": len(decisions) - 1} | ({"a": 1} if approval.always else {})
    title = Group(
        Text.assemble(("Allow ", "warn"), (exact_line(approval.tool), "bold"), ("?", "warn")), *_about(approval, change)
    )
    menu = Menu(
        title,
        choices,
        "↑↓ or the number, then Enter · Esc stops the turn",
        style="warn",
        text_label="Or what the agent should do instead",
        text_choice=len(decisions) - 1,
        text_hint="Enter rejects, and tells the agent this · Esc stops the turn",
        keys=keys,
    )
    return menu, decisions


def reason_menu(approval: Approval) -> Menu:
    """Return what asks for the reason of a rejection."""
    title = Text.assemble(("Reject ", "bad"), (safe_line(approval.tool), "bold"))
    return Menu(title, hint="Enter rejects · Esc goes back", style="bad", text_label="What the agent should do instead")


def decision_of_line(approval: Approval, text: str) -> Decision | None:
    """Read an answer that was typed as a line, with the code of the approval; None if it is none, as the line may have
    been written before its writer saw what is asked."""
    typed = read_typed_decision(text)
    if typed is None or typed.code != approval.code:
        return None
    return Decision(ONCE) if typed.approved else Decision(REJECT, typed.reason)


def where(approval: Approval, scope: ApprovalScope) -> str:
    """Return for what `always` holds, in words."""
    if scope == "session":
        return "in this session"
    named = f"agent {safe_line(approval.agent)}" if approval.agent else "this agent"
    return f"with {named}, in all your sessions"


def rules_in_words(approval: Approval) -> str:
    """Return the rules that `always` adds."""
    rules = [f"{rule.get('permission')} {rule.get('pattern')}" for rule in approval.always if is_object(rule)]
    return exact_line(", ".join(rules))


def _about(approval: Approval, change: FileChange | None) -> Iterator[RenderableType]:
    yield Text("")
    if change is not None:
        added, removed = counted(difference(change))
        yield Text.assemble(exact_line(change.path), (f"  +{added} -{removed}", "dim"))
        yield from change_lines(change, MAX_CHANGED, exact_line)
    elif approval.tool == "bash" and is_object(approval.input) and isinstance(approval.input.get("command"), str):
        yield from _command(approval.input)
    else:
        yield from _arguments(approval.input)
    if approval.reason:
        yield Text("")
        yield Text(exact_line(approval.reason), "dim")
    if approval.code:
        yield Text(f"Code {safe_line(approval.code)}", "dim")


def _command(given: dict[str, Any]) -> Iterator[Text]:
    lines = exact_text(str(given["command"])).rstrip("\n").split("\n")
    yield from (Text.assemble(("$ " if number == 0 else "  ", "warn"), line) for number, line in enumerate(lines))
    others = {name: value for name, value in given.items() if name not in ("command", "description")}
    if others:
        yield Text(exact_text(safe_json(others)), "dim")


def _arguments(given: Any) -> Iterator[Text]:
    if not is_object(given):
        yield Text(exact_text(safe_json(given)))
        return
    for name, value in given.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        first, *more = exact_text(text).split("\n")
        yield Text.assemble((f"{exact_line(name)}: ", "dim"), first)
        yield from (Text(f"  {line}") for line in more)
