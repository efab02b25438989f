"""Agents whose answers are written in the test."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agent_client.hub import EV_TEXT, Envelope, MemoryStream

Answer = Callable[[str, Mapping[str, Any]], Awaitable[str]]


@dataclass
class Scripted:
    """Answers by a function, and remembers what it was asked."""

    answer: Answer
    asked: list[str] = field(default_factory=list)
    histories: list[list[str]] = field(default_factory=list)

    async def ask(self, text: str, *, stream: MemoryStream, dependencies: Mapping[str, Any]) -> str:
        self.asked.append(text)
        self.histories.append([message.text for message in stream.history])
        return await self.answer(text, dependencies)


def echo() -> Scripted:
    async def answer(text: str, _dependencies: Mapping[str, Any]) -> str:
        return f"you said {text}"

    return Scripted(answer)


def silent() -> Scripted:
    async def answer(_text: str, _dependencies: Mapping[str, Any]) -> str:
        return ""

    return Scripted(answer)


def is_text(envelope: Envelope) -> bool:
    return envelope.event_type == EV_TEXT
