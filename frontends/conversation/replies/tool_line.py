"""A tool call as one line of a reply: what is called, on what, how long it took, how it ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agent_client import ToolResult
from agent_client.chat import (
    QUESTION_TOOL,
    duration,
    items,
    output_member,
    tool_error,
    tool_outcome,
    tool_seconds,
    tool_summary,
)
from agent_common.protocol import is_object

from ..words import code, plain

SHOWN_SECONDS = 0.1
"""A shorter time is not worth a word."""


@dataclass(slots=True)
class ToolLine:
    """One call, from its begin to its end."""

    name: str
    input: Any
    result: ToolResult | None = None
    waits: bool = False
    """For a person."""
    asked: bool = False
    """Whether a person was asked, in a message of its own."""

    def markdown(self) -> str:
        """Return the line."""
        if self.name == QUESTION_TOOL:
            return self._question()
        about = code(tool_summary(self.name, self.input))
        head = f"{self._mark} **{plain(self.name, 60)}**" + (f" {about}" if about else "")
        return " · ".join((head, *filter(None, self._facts())))

    @property
    def _mark(self) -> str:
        if self.result is None:
            return "⏸" if self.waits else "⚙"
        return "✓" if tool_error(self.result) is None else "✗"

    def _facts(self) -> tuple[str, ...]:
        if self.result is None:
            return ("waits for a decision",) if self.waits else ()
        seconds = tool_seconds(self.result)
        time = duration(seconds) if seconds is not None and seconds >= SHOWN_SECONDS else ""
        return plain(tool_error(self.result) or tool_outcome(self.result), 80), time

    def _question(self) -> str:
        asked = items(self.input.get("questions")) if is_object(self.input) else []
        texts = [str(one.get("question", "")) for one in asked if is_object(one)]
        if self.result is None:
            return f"❓ {plain('; '.join(texts), 120)}"
        found = items(output_member(self.result, "data").get("answers"))
        answers = ["; ".join(map(str, items(one))) for one in found]
        pairs = [
            f"❓ {plain(text, 120)} → **{plain(answer, 120)}**"
            for text, answer in zip(texts, answers + ["not answered"] * len(texts), strict=False)
        ]
        return "  \n".join(pairs)
