"""The steps of a turn in the terminal, one line each, as they happen."""

from __future__ import annotations

import json
import time
from typing import Any, cast

from rich.console import Console
from rich.status import Status
from rich.text import Text

from agent_runtime.protocol import Usage, chunks

KEY_ARGUMENTS = ("path", "command", "pattern", "query", "url", "name")
WIDTH = 64


class StepView:
    """Reads the chunks of a turn; shows what is going on, and prints a line for each step when it has ended."""

    def __init__(self, console: Console, status: Status) -> None:
        self._console = console
        self._status = status
        self._step = 0
        self._began = time.monotonic()
        self._text = ""
        self._calls: dict[str, Text] = {}
        """What is shown of each tool call of the step, by its id."""
        self._tokens = 0
        """Of the whole turn so far."""
        self._tokens_before = 0
        """The same when the step began."""

    def show(self, chunk: chunks.AnyChunk) -> None:
        match chunk:
            case chunks.StartStep():
                self._begin()
            case chunks.TextDelta():
                self._text += chunk.delta
            case chunks.ToolInputAvailable():
                self._calls[chunk.toolCallId] = call = described(chunk.toolName, key_argument(chunk.input))
                self._status.update(call)
            case chunks.ToolOutputAvailable():
                self._fail(chunk.toolCallId, failure_of(chunk.output))
            case chunks.ToolInputError() | chunks.ToolOutputError():
                self._fail(chunk.toolCallId, chunk.errorText)
            case chunks.FinishStep():
                self._end()
            case chunks.MessageMetadata() | chunks.Finish():
                self._count(chunk.messageMetadata or {})
            case chunks.DataChunk(type="data-status", data={"state": "retrying", "message": str(message)}):
                self._console.print(f"The model call failed and is made again: {message}", style="yellow", markup=False)
            case chunks.ErrorChunk():
                self._console.print(chunk.errorText, style="red", markup=False)
            case _:
                pass

    def _begin(self) -> None:
        self._step += 1
        self._tokens_before = self._tokens
        self._began = time.monotonic()
        self._text = ""
        self._calls.clear()
        self._status.update("Waiting for the model")

    def _fail(self, call_id: str, failure: str | None) -> None:
        if failure is not None:
            self._calls.setdefault(call_id, Text()).append(f"  {clipped(failure)}", style="red")

    def _count(self, metadata: dict[str, Any]) -> None:
        if "usage" in metadata:
            self._tokens = Usage.model_validate(metadata["usage"]).total

    def _end(self) -> None:
        seconds, tokens = time.monotonic() - self._began, self._tokens - self._tokens_before
        lines = list(self._calls.values()) or [described("answer", clipped(self._text))]
        for number, line in enumerate(lines):
            head = f"step {self._step:2}  {seconds:6.2f} s  {tokens:6} tokens" if number == 0 else ""
            self._console.print(Text(f"{head:32}  ", style="dim").append_text(line), no_wrap=True, overflow="ellipsis")


def described(name: str, what: str) -> Text:
    return Text(f"{name:8}", style="bold not dim").append(f" {what}", style="not bold")


def key_argument(arguments: Any) -> str:
    """The argument of a tool call that tells most about it."""
    if not isinstance(arguments, dict):
        return clipped(str(arguments))
    known = cast(dict[str, Any], arguments)
    key = next((name for name in KEY_ARGUMENTS if name in known), None)
    return clipped(str(known[key]) if key else json.dumps(known))


def failure_of(output: Any) -> str | None:
    """The error text of a tool's envelope, if it failed."""
    if not isinstance(output, dict):
        return None
    envelope = cast(dict[str, Any], output)
    return str(envelope.get("error_text")) if envelope.get("type") == "error" else None


def clipped(text: str) -> str:
    """The text on one line that fits."""
    line = " ".join(text.split())
    return line if len(line) <= WIDTH else line[: WIDTH - 1] + "…"
