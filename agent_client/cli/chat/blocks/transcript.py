"""From the events of turns to printed blocks: what is finished is printed once, what is open is the live end."""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.text import Text

from agent_common.protocol import is_object

from .... import (
    Approval,
    ChatEvent,
    Failed,
    Finished,
    Notice,
    Question,
    Queued,
    Reply,
    Started,
    Steered,
    StepStarted,
    TextDelta,
    TextReplaced,
    ToolCall,
    ToolResult,
)
from ....chat import duration
from ...output import safe_line, safe_text
from .changes import FileChange
from .marked import POINTER, Marked
from .out import Out
from .text_blocks import TextBlocks
from .tool_blocks import answered, tool_block
from .tool_lines import QUESTION, ToolLine

LONG_TURN_SECONDS = 10.0
"""Of a turn that took longer, or used tools, the time and the tokens are shown."""


class Transcript:
    """The conversation of one window."""

    def __init__(self, out: Out) -> None:
        self._out = out
        self._texts = TextBlocks(out)
        self._calls: dict[str, ToolLine] = {}
        self._after_tool = False
        self._begin()

    # ---------------------------------------------------------------- what this window says

    def user(self, text: str, note: str = "") -> None:
        """Print a message of the user."""
        self._end_text()
        shown = Text(safe_text(text), "bold")
        if note:
            shown.append(f"  {note}", "dim")
        self._print(Marked(POINTER, "user", shown))

    def command(self, text: str) -> None:
        """Print a command of the user, above its answer."""
        self._end_text()
        self._print(Marked(POINTER, "dim", Text(safe_line(text), "dim")))

    def notice(self, text: str, style: str = "dim") -> None:
        """Print a line about the conversation."""
        self._end_text()
        self._print(Marked("  ", "", Text(safe_text(text), style)))

    def problem(self, text: str) -> None:
        """Print what went wrong."""
        self._end_text()
        self._print(Marked("✗ ", "bad", Text(safe_text(text), "bad")))

    def block(self, block: RenderableType) -> None:
        """Print the answer of a command, also while calls run."""
        self._end_text()
        self._print(block)

    # ---------------------------------------------------------------- what the agent does

    def event(self, event: ChatEvent, change: FileChange | None = None) -> None:
        """Take the next event of the turn; with the result of a `write` or `edit` what it has changed."""
        match event:
            case TextDelta() | TextReplaced():
                self.activity = "Writing" if event.kind == "text" else "Thinking"
                self._texts.take(event)
                self._after_tool = False
            case ToolCall() | ToolResult():
                self._tool(event, change)
            case Started() | StepStarted() | Queued():
                self._progress(event)
            case Approval() | Question():
                self._waits(event)
            case Steered():
                self.user(_steered_text(event.data), "joined the running turn")
            case Notice():
                self._notice(event)
            case Failed():
                self._failed = True
                self.problem(event.message)
            case Finished():
                self._finish(event.reply)
            case _:
                return

    def answered(self) -> None:
        """The person has answered: no call waits any more."""
        for line in self._calls.values():
            line.waits = False
        self.activity = "Working"

    def live(self) -> Iterator[RenderableType]:
        """Yield what is not finished, as it is now."""
        yield from self._texts.live()
        for line in self._calls.values():
            if line.name != QUESTION:
                yield _Line(line)

    @property
    def live_apart(self) -> bool:
        """Whether an empty line belongs before what is live."""
        return self._texts.is_open or not self._after_tool

    def end(self) -> None:
        """Nothing follows: print what is open."""
        self._end_text()
        self._calls.clear()
        self._after_tool = False

    @property
    def seconds(self) -> float:
        """How long the turn has been going on."""
        return monotonic() - self._started

    # ----------------------------------------------------------------

    def _begin(self) -> None:
        self._calls.clear()
        self._used_tools = self._failed = False
        self._started = monotonic()
        self.activity = "Working"

    def _progress(self, event: Started | StepStarted | Queued) -> None:
        match event:
            case Started():
                self._begin()
            case Queued():
                self.activity = queued_text(event.position)
            case StepStarted():
                self._end_text()
                self.activity = "Thinking"

    def _tool(self, event: ToolCall | ToolResult, change: FileChange | None) -> None:
        self._end_text()
        if isinstance(event, ToolCall):
            self._used_tools = True
            self._calls[event.id] = ToolLine(event.id, event.name, event.input)
            self.activity = "Working"
            return
        line = self._calls.pop(event.id, None) or ToolLine(event.id, event.name, None)
        line.result = event
        line.waits = False
        if line.name == QUESTION:
            for block in answered(line):
                self._print(block)
            return
        self._out.print(tool_block(line, change), apart=not self._after_tool)
        self._after_tool = True

    def _waits(self, event: Approval | Question) -> None:
        self._end_text()
        self.activity = "Waiting for you"
        line = self._calls.get(event.tool_call_id if isinstance(event, Approval) else event.id)
        if line is not None:
            line.waits = True

    def _notice(self, event: Notice) -> None:
        data: dict[str, Any] = event.data if is_object(event.data) else {}
        match event.name:
            case "status" if data.get("state") == "retrying":
                self.activity = f"Trying the model again: {safe_line(str(data.get('message') or 'the call failed'))}"
            case "status" if data.get("state") == "compacting":
                self.activity = "Summarizing the conversation"
            case "compaction":
                self.notice("The conversation was summarized to fit into the model's window.")
            case "retry":
                self._end_text()
                self.notice("The model's answer broke off, and it is asked again.")
            case _:
                return

    def _finish(self, reply: Reply) -> None:
        self._end_text()
        for line in self._calls.values():
            self._out.print(tool_block(line, None), apart=not self._after_tool)
            self._after_tool = True
        self._calls.clear()
        if reply.finish_reason == "abort":
            self.notice("■ Stopped.", "warn")
        elif reply.error and not self._failed:
            self.problem(reply.error)
        elif reply.limit:
            self.notice(f"The turn ended at its limit: {reply.limit}.", "warn")
        if reply.finish_reason != "abort" and (self._used_tools or self.seconds > LONG_TURN_SECONDS):
            tokens = f" · {reply.usage.total:,} tokens" if reply.usage.total else ""
            self.notice(duration(self.seconds) + tokens)
        self._after_tool = False

    def _end_text(self) -> None:
        self._texts.finish()

    def _print(self, block: RenderableType) -> None:
        self._after_tool = False
        self._out.print(block)


class _Line:
    """A call that runs: drawn anew in each frame."""

    def __init__(self, line: ToolLine) -> None:
        self._line = line

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        yield Marked("  ", "", self._line.text(options.max_width - 2))


def queued_text(position: int) -> str:
    """Return what a message waits for."""
    if position == 0:
        return "Queued: after a failed turn the queue continues with your next message"
    return f"Queued behind {position} turn{'s' if position != 1 else ''}"


def _steered_text(data: Any) -> str:
    parts: list[Any] = data.get("parts", []) if is_object(data) else []
    return "\n".join(str(part["text"]) for part in parts if is_object(part) and "text" in part)
