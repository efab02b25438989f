"""Messages of a session as they are recorded, shown again: what was said before this window was opened."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from agent_common.protocol import SessionMessage

from ... import Agent, ChatEvent, TextDelta, ToolCall, ToolResult

SHOWN_TURNS = 3


async def latest_messages(agent: Agent, session: str, turns: int = SHOWN_TURNS) -> tuple[list[SessionMessage], int]:
    """Return the messages of the last turns, and how many there are before them. Raises ClientError."""
    kept: deque[list[SessionMessage]] = deque(maxlen=turns)
    count = 0
    async for message in agent.sessions.messages(session):
        count += 1
        if message.role == "user" or not kept:
            kept.append([])
        kept[-1].append(message)
    shown = [message for turn in kept for message in turn]
    return shown, count - len(shown)


def text_of(message: SessionMessage) -> str:
    """Return the text of a user's message."""
    return "\n".join(str(part.get("text", "")) for part in message.parts if part.get("type") == "text")


def events_of(message: SessionMessage) -> Iterator[ChatEvent]:
    """Yield what happened in a recorded reply."""
    for number, part in enumerate(message.parts):
        kind = str(part.get("type", ""))
        if kind in ("text", "reasoning"):
            yield TextDelta(str(part.get("text", "")), number, "text" if kind == "text" else "reasoning")
        elif kind == "dynamic-tool" or kind.startswith("tool-"):
            yield from _call(part, str(part.get("toolName") or kind.removeprefix("tool-")))


def _call(part: dict[str, Any], name: str) -> Iterator[ChatEvent]:
    call_id = str(part.get("toolCallId", ""))
    yield ToolCall(call_id, name, part.get("input"))
    state = part.get("state")
    if state == "output-available":
        yield ToolResult(call_id, name, part.get("output"))
    elif state in ("output-error", "output-denied"):
        error = part.get("errorText")
        yield ToolResult(call_id, name, error=str(error) if error else "denied")
