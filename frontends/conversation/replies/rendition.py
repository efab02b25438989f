"""The events of a turn as a document: the same events make the same document, in any process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_client import (
    Approval,
    ChatEvent,
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
from agent_client.chat import QUESTION_TOOL, items
from agent_common.protocol import is_object

from ..words import plain
from .endings import ending
from .file_links import FileLink, file_links, with_names
from .tool_line import ToolLine

_STATUSES = {"retrying": "↻ The model is asked again…", "compacting": "🗜 Earlier messages are summarized…"}


@dataclass(slots=True)
class _Text:
    number: int
    text: str = ""

    def markdown(self) -> str:
        return with_names(self.text.strip())


@dataclass(frozen=True, slots=True)
class _Note:
    text: str

    def markdown(self) -> str:
        return self.text


_Block = _Text | ToolLine | _Note


@dataclass(slots=True)
class Rendition:
    """A turn as it looks: the texts of its steps, a line for each tool call, notes. Reasoning is not shown."""

    blocks: list[_Block] = field(default_factory=list[_Block])
    reply: Reply | None = None
    """Once the turn has ended."""
    message_id: str | None = None
    """The message whose turn it is, once it has begun."""
    _calls: dict[str, ToolLine] = field(default_factory=dict[str, ToolLine])
    _step: int = 0
    """Where the blocks of the present step begin."""
    _status: str = ""

    def add(self, event: ChatEvent) -> None:
        """Take the next event."""
        if not isinstance(event, Notice):
            self._status = ""
        match event:
            case Queued():
                self._status = f"⏳ Waits for {event.position} other turn{'' if event.position == 1 else 's'}."
            case Started():
                self.message_id = event.message_id
            case StepStarted():
                self._step = len(self.blocks)
            case TextDelta() | TextReplaced():
                self._add_text(event)
            case ToolCall() | ToolResult() | Approval() | Question():
                self._add_call(event)
            case Steered():
                self._add_joined(event.data)
            case Notice():
                self._add_notice(event)
            case Finished():
                self.reply = event.reply
            case _:  # the end of a step, and a failure, which the last event tells too
                return

    def parts(self, footer: str = "") -> list[str]:
        """Return the parts of the document, none while there is nothing to show. A part ends where a person was asked:
        the rest comes below the message with the buttons."""
        parts = _parts(self.blocks)
        parts[-1] += [self._status, ending(self.reply) if self.reply else "", footer]
        found = ["\n\n".join(texts) for part in parts if (texts := [text for text in part if text])]
        return found or (["(The agent has not answered anything.)"] if self.reply else [])

    @property
    def works(self) -> bool:
        """Whether the agent works, and does not wait for a person or for its turn."""
        return self.message_id is not None and self.reply is None and not any(one.waits for one in self._calls.values())

    @property
    def files(self) -> Sequence[FileLink]:
        """Files of the workspace that the answer sends."""
        return file_links(self.reply.text) if self.reply else ()

    def _add_text(self, event: TextDelta | TextReplaced) -> None:
        if event.kind != "text":
            return
        found = next((one for one in self.blocks if isinstance(one, _Text) and one.number == event.part), None)
        if found is None:
            self.blocks.append(found := _Text(event.part))
        found.text = event.text if isinstance(event, TextReplaced) else found.text + event.text

    def _add_call(self, event: ToolCall | ToolResult | Approval | Question) -> None:
        match event:
            case ToolCall():
                if event.id not in self._calls:
                    line = ToolLine(event.name, event.input, asked=event.name == QUESTION_TOOL)
                    self.blocks.append(line)
                    self._calls[event.id] = line
            case ToolResult():
                if line := self._calls.get(event.id):
                    line.result = event
                    line.waits = False
            case Approval() | Question():
                call_id = event.tool_call_id if isinstance(event, Approval) else event.id
                if line := self._calls.get(call_id):
                    line.asked = True
                    line.waits = line.result is None

    def _add_joined(self, data: Any) -> None:
        if not is_object(data):
            return
        texts = [str(part.get("text", "")) for part in items(data.get("parts")) if is_object(part)]
        if any(texts):  # none: it has left the turn again
            own = (line for line in "\n".join(texts).split("\n") if not line.startswith("[reply to "))
            self.blocks.append(_Note(f"↳ *{plain(' '.join(own), 80)}*"))

    def _add_notice(self, event: Notice) -> None:
        state = event.data.get("state") if is_object(event.data) else None
        match event.name:
            case "status":
                self._status = _STATUSES.get(str(state), "")
            case "compaction":
                self.blocks.append(_Note("🗜 Earlier messages were summarized."))
            case "retry":  # what the model had written before its call broke off is not part of the answer
                self.blocks[self._step :] = [one for one in self.blocks[self._step :] if not isinstance(one, _Text)]
            case _:
                return


def _parts(blocks: Sequence[_Block]) -> list[list[str]]:
    """Return the paragraphs of each part; lines of tools that follow each other are one paragraph."""
    parts: list[list[str]] = [[]]
    follows_tool = was_asked = False
    for block in blocks:
        text = block.markdown()
        if not text:
            continue
        is_tool = isinstance(block, ToolLine)
        if is_tool and follows_tool:
            parts[-1][-1] += f"  \n{text}"
        elif was_asked:
            parts.append([text])
            was_asked = False
        else:
            parts[-1].append(text)
        was_asked = was_asked or (isinstance(block, ToolLine) and block.asked)
        follows_tool = is_tool
    return parts
