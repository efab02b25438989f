"""Summarize a conversation that is too long, with fallbacks from the plain attempt to the last resort
(docs/explanation/compaction.md#who-sums-up)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from agent_common.protocol import CompactionPolicy, Usage
from agent_common.telemetry import logger

from ...context import transcript
from ...errors import ModelError

ATTEMPTS_PER_TEXT = 2
"""Answers that are no summary, before that counts."""
MAX_CALLS = 60
"""Of the model for one summary, however short its window and however long the conversation."""
MAX_PIECES = 40
"""What would take more is not summed up piece by piece."""
OVERFLOW_SHRINK = 0.6
"""What is left of the room after a provider has found a piece too long that was thought to fit."""
MIN_INPUT_TOKENS = 500
"""Tokens of room below which nothing is tried."""
LABEL_TOKENS = 24
"""Tokens that say which piece of how many this is."""
INLINE_BYTES = 32 * 1024
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
    def max_input_tokens(self) -> int:
        """Tokens of conversation that it can be shown at once, as far as is known by now."""
        ...

    def count_tokens(self, text: str) -> int:
        """Tokens of a text, as its model counts."""
        ...

    @property
    def total_usage(self) -> Usage:
        """What all calls have cost so far, those included that came to nothing."""
        ...

    async def summarize(self, transcript: str) -> Summary:
        """Raises ModelError, which has the code `context_overflow` when the record is too long for it."""
        ...


class FallbackSummarizer:
    """Goes from rung to rung until there is a summary."""

    def __init__(self, summarizer: Summarizer, policy: CompactionPolicy) -> None:
        self._summarizer, self._recovery = summarizer, policy.smart_recovery
        self._max_input_tokens, self._count_tokens = summarizer.max_input_tokens, summarizer.count_tokens
        self._calls = 0

    async def summarize(self, messages: Sequence[bytes]) -> Summary:
        """Raises NoSummary."""
        whole, cost = await self._transcript_entries(messages, prune=False)
        summary = await self._first_that_fits(messages, whole, cost)
        if summary is None:
            raise NoSummary("the conversation is too long even to be summed up")
        if not self._useful(summary, cost):
            raise NoSummary("what came back is no summary: it is empty, or longer than what it sums up")
        return replace(summary, usage=self._summarizer.total_usage)

    async def _first_that_fits(
        self, messages: Sequence[bytes], texts: list[transcript.TranscriptEntry], cost: int
    ) -> Summary | None:
        """What the first rung gives that has room; None: none has."""
        if (summary := await self._summarize_whole(texts, cost)) is not None:
            return summary
        if self._recovery.prune_tool_outputs:
            texts, cost = await self._transcript_entries(messages, prune=True)
            if (summary := await self._summarize_whole(texts, cost)) is not None:
                return summary
        if self._recovery.chunked_summarize and (summary := await self._in_pieces(texts)) is not None:
            return summary
        return await self._without_middle(texts) if self._recovery.drop_middle else None

    async def _transcript_entries(
        self, messages: Sequence[bytes], *, prune: bool
    ) -> tuple[list[transcript.TranscriptEntry], int]:
        """The messages as text, and what that costs."""

        def work() -> tuple[list[transcript.TranscriptEntry], int]:
            texts = transcript.entries(messages, prune=prune)
            return texts, self._count_tokens(transcript.render(texts))

        return work() if sum(map(len, messages)) <= INLINE_BYTES else await asyncio.to_thread(work)

    async def _summarize_whole(self, texts: Sequence[transcript.TranscriptEntry], cost: int) -> Summary | None:
        """None: it does not fit."""
        return await self._summarize_text(transcript.render(texts), cost) if cost <= self._max_input_tokens else None

    async def _in_pieces(self, texts: list[transcript.TranscriptEntry]) -> Summary | None:
        """Piece by piece, and then the summaries of the pieces as one, which may take pieces again. None: that leads
        nowhere."""
        while self._max_input_tokens >= MIN_INPUT_TOKENS:
            pieces = await asyncio.to_thread(
                transcript.chunks, texts, self._count_tokens, self._max_input_tokens - LABEL_TOKENS
            )
            if len(pieces) <= 1:
                text = transcript.render(texts)
                if (summary := await self._summarize_text(text, self._count_tokens(text))) is not None:
                    return summary
            elif len(pieces) > MAX_PIECES:
                return None
            elif (shorter := await self._summarize_each_piece(pieces)) is not None:
                before, texts = self._count_tokens(transcript.render(texts)), shorter
                if self._count_tokens(transcript.render(texts)) > before * 0.9:
                    return None
        return None

    async def _summarize_each_piece(
        self, pieces: Sequence[list[transcript.TranscriptEntry]]
    ) -> list[transcript.TranscriptEntry] | None:
        """For each piece its summary, or the piece itself where that is the shorter one."""
        texts: list[transcript.TranscriptEntry] = []
        for number, piece in enumerate(pieces, 1):
            which, text = f"part {number} of {len(pieces)}", transcript.render(piece)
            cost = self._count_tokens(text)
            summary = await self._summarize_text(f"[This is {which}.]\n{text}", cost, longer=True)
            if summary is None:
                return None
            if not self._useful(summary, None):
                raise NoSummary(f"nothing came back for {which} of the conversation")
            useful = self._useful(summary, cost)
            texts += [transcript.TranscriptEntry(f"summary of {which}", summary.text)] if useful else piece
        return texts

    async def _without_middle(self, texts: Sequence[transcript.TranscriptEntry]) -> Summary | None:
        while self._max_input_tokens >= MIN_INPUT_TOKENS:
            text = await asyncio.to_thread(transcript.without_middle, texts, self._count_tokens, self._max_input_tokens)
            if (summary := await self._summarize_text(text, self._count_tokens(text))) is not None:
                return summary
        return None

    async def _summarize_text(self, text: str, cost: int, *, longer: bool = False) -> Summary | None:
        """None: it was too long after all, and the room is smaller than was thought. Another attempt is made at what
        does not look like a summary; `longer`: it may be longer than the text."""
        summary = await self._attempt(text, cost)
        for _ in range(ATTEMPTS_PER_TEXT - 1):
            if summary is not None and not self._useful(summary, None if longer else cost):
                summary = await self._attempt(text, cost)
        return summary

    async def _attempt(self, text: str, cost: int) -> Summary | None:
        self._calls += 1
        if self._calls > MAX_CALLS:
            raise NoSummary(f"the conversation is too long to be summed up in {MAX_CALLS} calls of the model")
        try:
            return await self._summarizer.summarize(text)
        except ModelError as error:
            if error.code != "context_overflow":
                raise NoSummary(error.message) from error
            known, thought = self._summarizer.max_input_tokens, min(self._max_input_tokens, cost)
            self._max_input_tokens = known if known < thought else int(thought * OVERFLOW_SHRINK)
            log.warning("a stretch of conversation is too long to be summed up at once", room=self._max_input_tokens)
            return None

    def _useful(self, summary: Summary, before: int | None) -> bool:
        """Whether it says something, in fewer tokens than there were before."""
        text = summary.text.strip()
        return bool(text) and (before is None or self._count_tokens(text) < before)
