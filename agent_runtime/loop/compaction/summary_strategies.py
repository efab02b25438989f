"""Summarize a long conversation, with fallbacks from one plain attempt to dropping its middle
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
"""Attempts to get a usable summary of one text."""
MAX_CALLS = 60
"""Maximum model calls for one summary."""
MAX_PIECES = 40
"""Maximum pieces; a conversation that needs more is not summarized in pieces."""
OVERFLOW_SHRINK = 0.6
"""Factor by which the input limit shrinks after the provider found a piece too long."""
MIN_INPUT_TOKENS = 500
"""Input limit below which no attempt is made."""
LABEL_TOKENS = 24
"""Tokens of the label that tells which piece it is."""
INLINE_BYTES = 32 * 1024
"""Up to these bytes a transcript is made without a thread; that takes about a millisecond."""

log = logger(__name__)


@dataclass(slots=True)
class Summary:
    """A summary with its size, and the usage and model of the calls that made it."""

    text: str
    tokens: int
    usage: Usage = field(default_factory=Usage)
    model: str = ""


class NoSummary(Exception):
    """Raised if no summary can be made; the text says why."""


class Summarizer(Protocol):
    """An agent that writes summaries."""

    @property
    def max_input_tokens(self) -> int:
        """Tokens of conversation that fit into one call, as known so far."""
        ...

    def count_tokens(self, text: str) -> int:
        """Count the tokens of a text as the summarizer's model does."""
        ...

    @property
    def total_usage(self) -> Usage:
        """Usage of all calls so far, including failed ones."""
        ...

    async def summarize(self, transcript: str) -> Summary:
        """Summarize in one call. Raises ModelError, with the code `context_overflow` if the transcript is too long."""
        ...


class FallbackSummarizer:
    """Tries one strategy after another until there is a summary."""

    def __init__(self, summarizer: Summarizer, policy: CompactionPolicy) -> None:
        self._summarizer = summarizer
        self._recovery = policy.smart_recovery
        self._max_input_tokens = summarizer.max_input_tokens
        self._count_tokens = summarizer.count_tokens
        self._calls = 0

    async def summarize(self, messages: Sequence[bytes]) -> Summary:
        """Summarize the messages. Raises NoSummary."""
        whole, cost = await self._transcript_entries(messages, prune=False)
        summary = await self._first_that_fits(messages, whole, cost)
        if summary is None:
            raise NoSummary("the conversation is too long to be summarized")
        if not self._useful(summary, cost):
            raise NoSummary("the summary is empty or no shorter than the conversation")
        return replace(summary, usage=self._summarizer.total_usage)

    async def _first_that_fits(
        self, messages: Sequence[bytes], texts: list[transcript.TranscriptEntry], cost: int
    ) -> Summary | None:
        """Return the summary of the first strategy whose input fits; None if none does."""
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
        """Return the messages as text, and the tokens of that text."""

        def work() -> tuple[list[transcript.TranscriptEntry], int]:
            texts = transcript.entries(messages, prune=prune)
            return texts, self._count_tokens(transcript.render(texts))

        return work() if sum(map(len, messages)) <= INLINE_BYTES else await asyncio.to_thread(work)

    async def _summarize_whole(self, texts: Sequence[transcript.TranscriptEntry], cost: int) -> Summary | None:
        """Return a summary of the whole text; None if it does not fit."""
        return await self._summarize_text(transcript.render(texts), cost) if cost <= self._max_input_tokens else None

    async def _in_pieces(self, texts: list[transcript.TranscriptEntry]) -> Summary | None:
        """Summarize pieces, then their summaries as one text, in pieces again if needed. None if that does not
        succeed."""
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
                before = self._count_tokens(transcript.render(texts))
                texts = shorter
                if self._count_tokens(transcript.render(texts)) > before * 0.9:
                    return None
        return None

    async def _summarize_each_piece(
        self, pieces: Sequence[list[transcript.TranscriptEntry]]
    ) -> list[transcript.TranscriptEntry] | None:
        """Replace each piece by its summary if that is shorter. None if a piece does not fit."""
        texts: list[transcript.TranscriptEntry] = []
        for number, piece in enumerate(pieces, 1):
            which = f"part {number} of {len(pieces)}"
            text = transcript.render(piece)
            cost = self._count_tokens(text)
            summary = await self._summarize_text(f"[This is {which}.]\n{text}", cost, longer=True)
            if summary is None:
                return None
            if not self._useful(summary, None):
                raise NoSummary(f"the summary of {which} of the conversation is empty")
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
        """Summarize, with a second attempt if the result is unusable. With `longer`, it may exceed the text's length.
        Returns None if the text does not fit after all; the input limit then shrinks."""
        summary = await self._attempt(text, cost)
        for _ in range(ATTEMPTS_PER_TEXT - 1):
            if summary is not None and not self._useful(summary, None if longer else cost):
                summary = await self._attempt(text, cost)
        return summary

    async def _attempt(self, text: str, cost: int) -> Summary | None:
        self._calls += 1
        if self._calls > MAX_CALLS:
            raise NoSummary(f"the conversation is too long to be summarized in {MAX_CALLS} model calls")
        try:
            return await self._summarizer.summarize(text)
        except ModelError as error:
            if error.code != "context_overflow":
                raise NoSummary(error.message) from error
            known = self._summarizer.max_input_tokens
            thought = min(self._max_input_tokens, cost)
            self._max_input_tokens = known if known < thought else int(thought * OVERFLOW_SHRINK)
            log.warning("a piece of the conversation is too long for one summary", room=self._max_input_tokens)
            return None

    def _useful(self, summary: Summary, before: int | None) -> bool:
        """Return whether the summary has text, and fewer than `before` tokens. None: any length."""
        text = summary.text.strip()
        return bool(text) and (before is None or self._count_tokens(text) < before)
