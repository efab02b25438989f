"""Questions of the agent: the menu of each, and how an answer is read that was typed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from agent_common.protocol import is_object

from ...chat import items
from ..output import safe_line, safe_text
from .screen import Choice, Menu, Picked


@dataclass(frozen=True, slots=True)
class Asked:
    """One question, read with care: a model has written it."""

    text: str
    header: str = ""
    options: Sequence[tuple[str, str]] = ()
    """Label and description."""
    multiple: bool = False


def asked(raw: Any) -> Asked:
    """Read a question of the stream."""
    if not is_object(raw):
        return Asked(str(raw))
    found = [_option(one) for one in items(raw.get("options"))]
    return Asked(str(raw.get("question", "")), str(raw.get("header") or ""), found, raw.get("multi_select") is True)


def _option(raw: Any) -> tuple[str, str]:
    if not is_object(raw):
        return str(raw), ""
    return str(raw.get("label", "")), str(raw.get("description") or "")


def question_menu(question: Asked, number: int, count: int) -> Menu:
    """Return the menu that asks the question."""
    title: list[RenderableType] = [Text(safe_text(question.text), "bold")]
    of = f"{number} of {count}" if count > 1 else ""
    if above := "  ".join(filter(None, (safe_line(question.header), of))):
        title.insert(0, Text(above, "dim"))
    choices = [Choice(safe_line(label), safe_line(about)) for label, about in question.options]
    if not choices:
        return Menu(Group(*title), hint="Enter answers · Esc stops the turn", style="warn", text_label="Your answer")
    hint = "↑↓ Space Enter, or the numbers" if question.multiple else "↑↓ Enter or the number"
    return Menu(
        Group(*title),
        choices,
        f"{hint} · or type an answer · Esc stops the turn",
        style="warn",
        multiple=question.multiple,
        text_label="Or your own answer",
    )


def answers_of(question: Asked, picked: Picked) -> list[str]:
    """Return the answer to a question as the agent takes it."""
    if picked.text is None:
        return [question.options[number][0] for number in picked.numbers]
    return answers_of_line(question, picked.text)


def answers_of_line(question: Asked, text: str) -> list[str]:
    """Read a typed answer: a label or its number, several of them with commas where several may be chosen, or any
    other text."""
    text = text.strip()
    pieces = [piece.strip() for piece in text.split(",")] if question.multiple else [text]
    labels = [_label(question, piece) for piece in pieces if piece]
    found = [label for label in labels if label is not None]
    return list(dict.fromkeys(found)) if found and len(found) == len(labels) else [text]


def _label(question: Asked, piece: str) -> str | None:
    labels = [label for label, _ in question.options]
    if piece.isascii() and piece.isdigit() and 1 <= int(piece) <= len(labels):
        return labels[int(piece) - 1]
    return next((label for label in labels if label.casefold() == piece.casefold()), None)
