"""Summarize a conversation that is too long, with fallbacks from the plain attempt to the last resort
(docs/compaction.md#who-sums-up)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from agent_common.protocol import CompactionPolicy, Usage
from agent_common.telemetry import logger

from ...context import transcript as record
from ...errors import ModelError

ATTEMPTS = 2
"""Answers that are no summary, before that counts."""
MOST_CALLS = 60
"""Of the model for one summary, however short its window and however long the conversation."""
MOST_PIECES = 40
"""What would take more is not summed up piece by piece."""
SHRINK = 0.6
"""What is left of the room after a provider has found a piece too long that was thought to fit."""
SMALLEST = 500
"""Tokens of room below which nothing is tried."""
LABEL = 24
"""Tokens that say which piece of how many this is."""
INLINE = 32 * 1024
"""Bytes of conversation that are written out without a thread: about a millisecond."""

log = logger(__name__)


@dataclass(slots=True)
class Summary:
    """A summary, with what it took to get it."""

    text: str
    tokens: int
    usage: Usage = field(default_factory=Usage)
    model: str = ""


class NoSummary(Exception):
    """There is none to be had; the text says why."""


class Summarizer(Protocol):
    """An agent that sums up."""

    @property
    def room(self) -> int:
        """Tokens of conversation that it can be shown at once, as far as is known by now."""
        ...

    def cost(self, text: str) -> int:
        """Tokens of a text, as its model counts."""
        ...

    @property
    def spent(self) -> Usage:
        """What all calls have cost so far, those included that came to nothing."""
        ...

    async def write(self, record: str) -> Summary:
        """Raises ModelError, which has the code `context_overflow` when the record is too long for it."""
        ...


class FallbackSummarizer:
    """Goes from rung to rung until there is a summary."""

    def __init__(self, writer: Summarizer, policy: CompactionPolicy) -> None:
        self._writer, self._recovery = writer, policy.smart_recovery
        self._room, self._cost = writer.room, writer.cost
        self._calls = 0

    async def sum_up(self, messages: Sequence[bytes]) -> Summary:
        """Raises NoSummary."""
        whole, cost = await self._written_out(messages, prune=False)
        summary = await self._climbed(messages, whole, cost)
        if summary is None:
            raise NoSummary("the conversation is too long even to be summed up")
        if not self._useful(summary, cost):
            raise NoSummary("what came back is no summary: it is empty, or longer than what it sums up")
        return replace(summary, usage=self._writer.spent)

    async def _climbed(
        self, messages: Sequence[bytes], texts: list[record.TranscriptEntry], cost: int
    ) -> Summary | None:
        """What the first rung gives that has room; None: none has."""
        if (summary := await self._plain(texts, cost)) is not None:
            return summary
        if self._recovery.prune_tool_outputs:
            texts, cost = await self._written_out(messages, prune=True)
            if (summary := await self._plain(texts, cost)) is not None:
                return summary
        if self._recovery.chunked_summarize and (summary := await self._in_pieces(texts)) is not None:
            return summary
        return await self._without_middle(texts) if self._recovery.drop_middle else None

    async def _written_out(self, messages: Sequence[bytes], *, prune: bool) -> tuple[list[record.TranscriptEntry], int]:
        """The messages as text, and what that costs."""

        def work() -> tuple[list[record.TranscriptEntry], int]:
            texts = record.entries(messages, prune=prune)
            return texts, self._cost(record.plain(texts))

        return work() if sum(map(len, messages)) <= INLINE else await asyncio.to_thread(work)

    async def _plain(self, texts: Sequence[record.TranscriptEntry], cost: int) -> Summary | None:
        """None: it does not fit."""
        return await self._written(record.plain(texts), cost) if cost <= self._room else None

    async def _in_pieces(self, texts: list[record.TranscriptEntry]) -> Summary | None:
        """Piece by piece, and then the summaries of the pieces as one, which may take pieces again. None: that leads
        nowhere."""
        while self._room >= SMALLEST:
            pieces = await asyncio.to_thread(record.chunks, texts, self._cost, self._room - LABEL)
            if len(pieces) <= 1:
                text = record.plain(texts)
                if (summary := await self._written(text, self._cost(text))) is not None:
                    return summary
            elif len(pieces) > MOST_PIECES:
                return None
            elif (shorter := await self._shorter(pieces)) is not None:
                before, texts = self._cost(record.plain(texts)), shorter
                if self._cost(record.plain(texts)) > before * 0.9:
                    return None
        return None

    async def _shorter(self, pieces: Sequence[list[record.TranscriptEntry]]) -> list[record.TranscriptEntry] | None:
        """For each piece its summary, or the piece itself where that is the shorter one."""
        texts: list[record.TranscriptEntry] = []
        for number, piece in enumerate(pieces, 1):
            which, text = f"part {number} of {len(pieces)}", record.plain(piece)
            cost = self._cost(text)
            summary = await self._written(f"[This is {which}.]\n{text}", cost, longer=True)
            if summary is None:
                return None
            if not self._useful(summary, None):
                raise NoSummary(f"nothing came back for {which} of the conversation")
            useful = self._useful(summary, cost)
            texts += [record.TranscriptEntry(f"summary of {which}", summary.text)] if useful else piece
        return texts

    async def _without_middle(self, texts: Sequence[record.TranscriptEntry]) -> Summary | None:
        while self._room >= SMALLEST:
            text = await asyncio.to_thread(record.without_middle, texts, self._cost, self._room)
            if (summary := await self._written(text, self._cost(text))) is not None:
                return summary
        return None

    async def _written(self, text: str, cost: int, *, longer: bool = False) -> Summary | None:
        """None: it was too long after all, and the room is smaller than was thought. Another attempt is made at what
        does not look like a summary; `longer`: it may be longer than the text."""
        summary = await self._attempt(text, cost)
        for _ in range(ATTEMPTS - 1):
            if summary is not None and not self._useful(summary, None if longer else cost):
                summary = await self._attempt(text, cost)
        return summary

    async def _attempt(self, text: str, cost: int) -> Summary | None:
        self._calls += 1
        if self._calls > MOST_CALLS:
            raise NoSummary(f"the conversation is too long to be summed up in {MOST_CALLS} calls of the model")
        try:
            return await self._writer.write(text)
        except ModelError as error:
            if error.code != "context_overflow":
                raise NoSummary(error.message) from error
            known, thought = self._writer.room, min(self._room, cost)
            self._room = known if known < thought else int(thought * SHRINK)
            log.warning("a stretch of conversation is too long to be summed up at once", room=self._room)
            return None

    def _useful(self, summary: Summary, before: int | None) -> bool:
        """Whether it says something, in fewer tokens than there were before."""
        text = summary.text.strip()
        return bool(text) and (before is None or self._cost(text) < before)
