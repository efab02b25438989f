"""A tool call as a line: what is called, on what, how it stands, how long it took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from ....chat import (
    QUESTION_TOOL,
    ToolResult,
    duration,
    output_member,
    tool_error,
    tool_outcome,
    tool_seconds,
    tool_summary,
)
from ...output import safe_line

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
OUTPUT_LINES = 4
QUESTION = QUESTION_TOOL
"""The tool that asks a person: what it has asked and heard is shown in its place."""


@dataclass(slots=True)
class ToolLine:
    """One call, from its begin to its end."""

    id: str
    name: str
    input: Any
    started: float = field(default_factory=monotonic)
    result: ToolResult | None = None
    waits: bool = False
    """For a person."""

    def text(self, width: int) -> Text:
        """Return the line for a terminal of this width."""
        mark, style = self._mark
        tail = " · ".join(filter(None, (self._outcome, self._time)))
        space = width - cell_len(self.name) - cell_len(tail) - 6
        about = _cut(safe_line(tool_summary(self.name, self.input)), space)
        line = Text.assemble((f"{mark} ", style), (safe_line(self.name), "tool"), " ", about)
        if tail:
            line.append("  ").append(tail, "bad" if self.failed else "dim")
        return line

    @property
    def failed(self) -> bool:
        return self.result is not None and tool_error(self.result) is not None

    @property
    def _mark(self) -> tuple[str, str]:
        if self.result is None:
            return ("?", "warn") if self.waits else (SPINNER[int(monotonic() * 10) % len(SPINNER)], "accent")
        return ("✗", "bad") if self.failed else ("✓", "good")

    @property
    def _time(self) -> str:
        if self.waits and self.result is None:
            return "waits for you"
        if self.result is None:
            return duration(monotonic() - self.started)
        taken = tool_seconds(self.result)
        return duration(taken) if taken is not None and taken >= 0.1 else ""

    @property
    def _outcome(self) -> str:
        if self.result is None:
            return ""
        return _cut(safe_line(tool_error(self.result) or tool_outcome(self.result)), 60)


def output_lines(result: ToolResult) -> Sequence[str]:
    """Return the lines that a command has printed, errors last."""
    data = output_member(result, "data")
    texts = (data.get("stdout"), data.get("stderr"))
    return [line for text in texts if isinstance(text, str) for line in text.rstrip().splitlines()]


def backup_of(result: ToolResult) -> str | None:
    """Return where the former content of the file is kept."""
    backup = output_member(result, "metadata").get("backup")
    return backup if isinstance(backup, str) else None


def _cut(text: str, width: int) -> str:
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, max(width - 1, 1)).rstrip() + "…"
