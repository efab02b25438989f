"""A tool call that has ended, with what is worth seeing of it: changed lines, printed lines, a list of tasks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.text import Text

from agent_common.protocol import is_object

from ....chat import items
from ...output import safe_line, safe_text
from .changes import FileChange, change_lines
from .marked import Marked
from .tool_lines import OUTPUT_LINES, ToolLine, output_lines

_TODO_MARKS = {
    "completed": ("✓", "good"),
    "in_progress": ("▸", "accent"),
    "cancelled": ("-", "dim"),
    "pending": ("○", "dim"),
}


def tool_block(line: ToolLine, change: FileChange | None) -> RenderableType:
    """Return the line of the call and what belongs below it."""
    return Marked("  ", "", Group(_Drawn(line), *(Marked("    ", "", detail) for detail in _details(line, change))))


def answered(line: ToolLine) -> Iterator[RenderableType]:
    """Yield the questions of a call with their answers."""
    result = line.result
    data: Any = result.output.get("data") if result and is_object(result.output) else None
    answers = items(data.get("answers")) if is_object(data) else []
    for number, asked in enumerate(questions_of(line.input)):
        text = ", ".join(map(str, items(answers[number]))) if number < len(answers) else ""
        question = Text(safe_text(str(asked.get("question", ""))))
        reply = Text(safe_text(text) or "not answered", "bold" if text else "dim")
        yield Group(Marked("? ", "warn", question), Marked("  → ", "accent", reply))


def questions_of(given: Any) -> list[dict[str, Any]]:
    """Return the questions that a call of `question` asks."""
    return [one for one in items(given.get("questions")) if is_object(one)] if is_object(given) else []


def _details(line: ToolLine, change: FileChange | None) -> Iterator[Text]:
    if change is not None and not line.failed:
        yield from change_lines(change)
    elif line.name == "bash" and line.result is not None:
        yield from _output(line)
    elif line.name == "todo" and is_object(line.input):
        for one in filter(is_object, items(line.input.get("todos"))):
            mark, style = _TODO_MARKS.get(str(one.get("status")), ("○", "dim"))
            done = one.get("status") in ("completed", "cancelled")
            yield Text.assemble((f"{mark} ", style), (safe_line(str(one.get("content", ""))), "dim" if done else ""))


def _output(line: ToolLine) -> Iterator[Text]:
    lines = output_lines(line.result) if line.result else ()
    left = len(lines) - OUTPUT_LINES
    shown = lines if left <= 1 else lines[-OUTPUT_LINES:] if line.failed else lines[:OUTPUT_LINES]
    more = Text(f"… {left} more lines", "dim")
    if left > 1 and line.failed:
        yield more
    for text in shown:
        yield Text(safe_line(text), "dim", no_wrap=True, overflow="ellipsis")
    if left > 1 and not line.failed:
        yield more


class _Drawn:
    """The line of a call at the width that there is."""

    def __init__(self, line: ToolLine) -> None:
        self._line = line

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        yield self._line.text(options.max_width)
