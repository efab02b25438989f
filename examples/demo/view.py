"""The steps of a turn in the terminal, one line each, as they happen."""

from __future__ import annotations

import json
import time
from typing import Any, cast

from rich.console import Console
from rich.padding import Padding
from rich.status import Status
from rich.text import Text

from agent_client import ChatEvent, Failed, Finished, Notice, StepFinished, StepStarted, TextDelta, ToolCall, ToolResult
from agent_common.protocol import Usage

KEY_ARGUMENTS = ("path", "command", "pattern", "query", "url", "name")
WIDTH = 64
NOTE = 240
"""Characters of what came of a call, or of what the model says to it."""
INDENT = 34
FAILED = "red"


class StepView:
    """Reads the events of a turn; shows what is going on, and prints a line for each step when it has ended."""

    def __init__(self, console: Console, status: Status) -> None:
        self._console = console
        self._status = status
        self._step = 0
        self._began = time.monotonic()
        self._text = ""
        self._calls: dict[str, list[Text]] = {}
        """What is shown of each tool call of the step, by its id: its line, and lines below it."""
        self._failed = False
        """Whether a call of the step before did: then what the model says to that is shown too."""
        self._tokens = 0
        """Of the whole turn so far."""
        self._tokens_before = 0
        """The same when the step began."""

    def show(self, event: ChatEvent) -> None:
        match event:
            case StepStarted():
                self._begin()
            case TextDelta(kind="text"):
                self._text += event.text
            case ToolCall():
                call = step_line(event.name, key_argument(event.input))
                self._calls[event.id] = [call]
                self._status.update(call)
            case ToolResult():
                self._add_note(event.id, failure(event.error) if event.error else outcome_of(event.output))
            case StepFinished():
                self._count(event.usage)
                self._end()
            case Finished():
                self._count(event.reply.usage)
            case Notice(name="status", data={"state": "retrying", "message": str(message)}):
                self._console.print(f"The model call failed and is made again: {message}", style="yellow", markup=False)
            case Failed():
                self._console.print(event.message, style="red", markup=False)
            case _:
                pass

    def _begin(self) -> None:
        self._step += 1
        self._tokens_before = self._tokens
        self._began = time.monotonic()
        self._text = ""
        self._calls.clear()
        self._status.update("Waiting for the model")

    def _add_note(self, call_id: str, note: Text | None) -> None:
        if note is not None:
            self._calls.setdefault(call_id, [Text()]).append(note)

    def _count(self, usage: Usage | None) -> None:
        if usage is not None:
            self._tokens = usage.total

    def _end(self) -> None:
        seconds = time.monotonic() - self._began
        tokens = self._tokens - self._tokens_before
        head = f"step {self._step:2}  {seconds:6.2f} s  {tokens:6} tokens"
        if self._failed and self._text and self._calls:
            next(iter(self._calls.values())).insert(1, Text(clipped(self._text, NOTE), style="italic"))
        for line, *notes in self._calls.values() or [[step_line("answer", clipped(self._text))]]:
            whole = Text(f"{head:{INDENT}}", style="dim").append_text(line)
            self._console.print(whole, no_wrap=True, overflow="ellipsis")
            for note in notes:
                self._console.print(Padding(note, (0, 0, 0, INDENT)))
            head = ""
        self._failed = any(note.style == FAILED for _, *notes in self._calls.values() for note in notes)


def step_line(name: str, what: str) -> Text:
    return Text(f"{name:12}", style="bold not dim").append(f" {what}", style="not bold")


def key_argument(arguments: Any) -> str:
    """The argument of a tool call that tells most about it."""
    if not isinstance(arguments, dict):
        return clipped(str(arguments))
    known = cast(dict[str, Any], arguments)
    key = next((name for name in KEY_ARGUMENTS if name in known), None)
    return clipped(str(known[key]) if key else json.dumps(known))


def outcome_of(output: Any) -> Text | None:
    """What is worth a line in a tool's envelope: that it failed, or that the agent has given itself tools."""
    match cast(dict[str, Any], output):
        case {"type": "error"} as envelope:
            return failure(str(envelope.get("error_text")))
        case {"type": "output", "data": {"version": int(), "skills": [*skills]}}:
            tools = [f"{one['name']}({', '.join(one['parameters']['properties'])})" for one in skills]
            return Text(f"✓ a tool of its own: {', '.join(tools)}", style="green")
        case _:
            return None


def failure(text: str) -> Text:
    return Text(f"✗ {clipped(text, NOTE)}", style=FAILED)


def clipped(text: str, width: int = WIDTH) -> str:
    """The text on one line that fits."""
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 1] + "…"
