"""Compact a conversation before it outgrows the model's window. Checked before every model call of a turn."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from agent_common.completions import overflow_of
from agent_common.protocol import CompactionPolicy, Usage
from agent_common.protocol import chunks as c
from agent_common.telemetry import logger

from ...context import (
    MIN_SUMMARY,
    SKILL_TOOL,
    CompactionHistory,
    ContextUsage,
    ContextWindow,
    Cut,
    CutPoint,
    View,
    cut_for,
    too_long,
)
from ...errors import ModelError
from ...sessions import COMPACTION, Marker, Shortened
from .summary_strategies import NoSummary, Summary

MIN_WINDOW = 1024
"""Tokens. An error that reports a smaller window is misread and ignored; so is the refusal of a smaller request."""
RETRY_GROWTH = 1.05
"""After a compaction that failed or freed too little, the conversation must grow by this factor before the next one."""
MIN_KEPT_CHARACTERS = 400
"""Characters of a result that shortening always keeps."""
SAFETY_SHARE = 0.9
"""Share of the characters that a result could keep by its token count, which is an estimate."""
TARGET_SHARE = 0.5
"""Results are shortened until the conversation fills at most this share of the tokens that prompt and tools leave."""
MAX_SUMMARY_SHARE = 1 / 3
"""Maximum share of those tokens for a summary."""
MAX_SUMMARY_RATIO = 0.9
"""Maximum length of a summary relative to what it replaces."""
RELIEF_SHARE = 0.9
"""If a compaction leaves more than this share of the usable window filled, the next one waits until the conversation
has grown; otherwise every call would compact."""
REFUSED_SHRINK = 0.7
"""If the provider refuses a request without naming its limit, the turn sends at most this share of that size."""

log = logger(__name__)


class CalibrationOnly:
    """The budget of a single-shot turn: it never compacts, but calibrates token counts from the model's usage."""

    compacted = False

    def __init__(self, view: View, context_usage: ContextUsage) -> None:
        self._view = view
        self._context_usage = context_usage

    async def compact_if_needed(self, tools: bytes | None, *, forced: bool = False) -> AsyncIterator[c.Chunk]:
        self._context_usage.occupancy(self._view.messages, tools)  # `record_usage` refers to the request measured last
        return
        yield  # an async generator that yields nothing

    async def require_fits(self, tools: bytes | None) -> None:
        return

    def record_usage(self, sent: int, usage: Usage) -> None:
        _record_report(self._context_usage, sent, usage)

    def record_overflow(self, error: ModelError) -> None:
        if not error.by_fallback:
            _learn(self._context_usage, error)


@dataclass(frozen=True, slots=True)
class CompactionDeps:
    """The dependencies of one conversation's compactions."""

    view: View
    context_usage: ContextUsage
    configured_window: Callable[[], ContextWindow]
    """The window as configured; refusals narrow it further."""
    policy: CompactionPolicy
    summarize: Callable[[Sequence[bytes], int], Awaitable[Summary]]
    """Summarizes the messages in at most that many tokens. Raises NoSummary."""
    save_marker: Callable[[Marker, Summary], Awaitable[tuple[str, View]]]
    """Stores the marker and reads the conversation again. Returns the marker's id and the new view."""
    history: CompactionHistory
    model_switched: bool = False
    """The turn uses another model than its session."""


class AutoCompaction:
    """Compacts one conversation when it outgrows the model's window."""

    def __init__(self, deps: CompactionDeps) -> None:
        self._deps = deps
        self.compacted = False
        self._overflows = 0
        self._max_tokens: int | None = None
        """Maximum tokens that this turn still sends, after a refusal that did not report the provider's limit, or was
        another model's."""
        self._used_tokens = 0
        """Tokens of the next call."""

    def record_usage(self, sent: int, usage: Usage) -> None:
        input_tokens = _record_report(self._deps.context_usage, sent, usage)
        history = self._deps.history
        if history.refused_tokens is not None and input_tokens > history.refused_tokens:
            history.refused_tokens = None  # a larger request was accepted

    def record_overflow(self, error: ModelError) -> None:
        """Learn the window and the size of the request from the error. What another model has refused, which was asked
        in place of the turn's own, concerns this turn only."""
        self._overflows += 1
        if error.by_fallback:
            report = overflow_of(error.message)
            stated = report.limit if report is not None else None
            self._max_tokens = max(MIN_WINDOW, min(stated or self._used_tokens, self._shrunk()))
        elif not _learn(self._deps.context_usage, error) and self._used_tokens >= MIN_WINDOW:
            history = self._deps.history
            history.refused_tokens = min(self._used_tokens, history.refused_tokens or self._used_tokens)
            self._max_tokens = self._shrunk()

    def _shrunk(self) -> int:
        """Return the tokens that the turn may send after a refusal of a size that the provider did not state."""
        return int(min(self._used_tokens, self._max_tokens or self._used_tokens) * REFUSED_SHRINK)

    async def require_fits(self, tools: bytes | None) -> None:
        if not self._deps.model_switched:
            return
        context_usage = self._deps.context_usage
        window = self._deps.configured_window()
        limit = window.limit
        if not window.known or self._used_tokens <= limit:
            return
        sizes = await too_long(context_usage.calibration, self._deps.view.messages, tools, limit)
        if sizes is None:
            return
        tokens, available = sizes
        raise ModelError(
            f"what was said has {tokens} tokens, more than can be compacted for model "
            f"{context_usage.calibration.model}, which takes {limit} and has {available} left beside prompt and tools: "
            "choose a larger one or fork the session",
            code="context_overflow",
        )

    async def compact_if_needed(self, tools: bytes | None, *, forced: bool = False) -> AsyncIterator[c.Chunk]:
        self.compacted = False
        context_usage = self._deps.context_usage
        view = self._deps.view
        history = self._deps.history
        window = self._deps.configured_window().narrowed(
            context_usage.calibration.limit, history.refused_tokens, self._max_tokens
        )
        used = self._used_tokens = context_usage.occupancy(view.messages, tools)
        if not forced and (used < window.usable or used < history.not_before):
            return
        compact = self._plan(window, tools)
        if compact is None:
            return
        yield c.DataChunk(type="data-status", data={"state": "compacting", "context_tokens": used}, transient=True)
        try:
            marker_id, marker = await compact()
        except NoSummary as failure:
            history.not_before = int(used * RETRY_GROWTH)
            log.warning("a conversation could not be compacted", error=str(failure), context_tokens=used)
            status = {"state": "uncompacted", "message": str(failure), "context_tokens": used}
            yield c.DataChunk(type="data-status", data=status, transient=True)
            # The provider has refused the request, so something must go, even without a summary.
            fallback = self._plan_shortening(self._available(window, tools)) if forced else None
            if fallback is None:
                return
            marker_id, marker = await fallback()
        self.compacted = True
        self._used_tokens = context_usage.occupancy(view.messages, tools)
        history.not_before = _retry_from_tokens(self._used_tokens, window)
        yield c.DataChunk(type=COMPACTION, id=marker_id, data=marker.to_part()["data"], transient=True)

    def _plan(self, window: ContextWindow, tools: bytes | None) -> Callable[[], Awaitable[tuple[str, Marker]]] | None:
        """Return the compaction that would make room: a summary, or else shortened results. None if neither is
        possible."""
        view = self._deps.view
        policy = self._deps.policy
        token_counts = self._deps.context_usage.costs(view.messages)
        available = self._available(window, tools)
        max_tail = available.tokens * policy.tail_budget_pct // 100 // (1 + self._overflows)  # less after each refusal
        cut = cut_for(view.cut_points, token_counts, turns=policy.tail_turns, budget=max_tail)
        if cut is None:
            return self._plan_shortening(available)
        head = sum(token_counts[index] for index in cut.head)
        max_summary = min(window.max_summary, int(available.tokens * MAX_SUMMARY_SHARE), int(head * MAX_SUMMARY_RATIO))
        target = int(available.tokens * TARGET_SHARE)
        return lambda: self._compact_with_summary(cut, max(MIN_SUMMARY, max_summary), target)

    def _available(self, window: ContextWindow, tools: bytes | None) -> _Available:
        context_usage = self._deps.context_usage
        messages = self._deps.view.messages
        conversation = sum(context_usage.costs(messages)[1:])  # without the system prompt
        fixed = max(0, context_usage.occupancy(messages, tools) - conversation)
        return _Available(fixed, max(0, window.usable - fixed))

    def _plan_shortening(self, available: _Available) -> Callable[[], Awaitable[tuple[str, Marker]]] | None:
        """Return a plan that only shortens the largest results, which needs no model. None if there are none."""
        view = self._deps.view
        excess = self._used_tokens - available.fixed_tokens - int(available.tokens * TARGET_SHARE)
        shortened = tuple(self._choose_shortened(view.cut_points[0], excess)) if view.cut_points else ()
        marker = view.marker_without_cut(shortened) if set(shortened) != set(view.shortened) else None
        return (lambda: self._save_marker(marker, Summary(marker.summary, marker.summary_tokens))) if marker else None

    async def _compact_with_summary(self, cut: Cut, max_tokens: int, target_tokens: int) -> tuple[str, Marker]:
        """`max_tokens` limits the summary, `target_tokens` the summary and the tail."""
        view = self._deps.view
        summary = await self._deps.summarize([view.messages[at] for at in cut.head], max_tokens)
        excess = summary.tokens + cut.tail_tokens - target_tokens
        marker = Marker(
            summary=summary.text,
            summary_tokens=summary.tokens,
            auto=True,
            tail_start_id=cut.start.message_id if cut.start else None,
            tail_start_step=cut.start.step if cut.start else 0,
            spoken_to=_spoken_to(view.cut_points, cut.start),
            shortened=tuple(self._choose_shortened(cut.start, excess)) if cut.start else (),
            skills=view.skills_lost(cut.head.stop),
        )
        return await self._save_marker(marker, summary)

    async def _save_marker(self, marker: Marker, summary: Summary) -> tuple[str, Marker]:
        marker_id, after = await self._deps.save_marker(marker, summary)
        self._deps.view.replace_with(after)
        self._deps.context_usage.reset()
        return marker_id, marker

    def _choose_shortened(self, start: CutPoint, excess: int) -> list[Shortened]:
        """Return the shortened results of the tail: those shortened earlier, and further ones, the largest first and
        instructions last, until `excess` tokens are saved."""
        view = self._deps.view
        results = sorted(view.results(start), key=lambda result: (result.tool == SKILL_TOOL, -len(result.text)))
        in_tail = {(result.message_id, result.call_id) for result in results}
        chosen = {key: old for old in view.shortened if (key := (old.message_id, old.call_id)) in in_tail}
        for result in results:
            size = len(result.text)
            if excess <= 0 or size <= MIN_KEPT_CHARACTERS:
                continue
            tokens = self._deps.context_usage.text_tokens(result.text)
            kept = max(MIN_KEPT_CHARACTERS, int(size * max(0.0, 1 - excess / tokens) * SAFETY_SHARE))
            chosen[result.message_id, result.call_id] = Shortened(result.message_id, result.call_id, kept)
            excess -= tokens - tokens * kept // size
        return list(chosen.values())


class _Available(NamedTuple):
    """How the usable window is divided."""

    fixed_tokens: int
    """Taken by the prompt and the tools."""
    tokens: int
    """Left for the conversation."""


def _learn(context_usage: ContextUsage, error: ModelError) -> bool:
    """Learn from the model's error about a request that was too long. Returns whether it states the limit."""
    overflow = context_usage.record_overflow(error.message)
    if overflow is None or overflow.limit is None or overflow.limit < MIN_WINDOW:
        return False
    context_usage.calibration.limit = overflow.limit
    return True


def _record_report(context_usage: ContextUsage, sent: int, usage: Usage) -> int:
    """Learn from the usage that the model reports; returns the input tokens. If they exceed the known limit, the limit
    is dropped: it came from an error text, which may quote user content."""
    input_tokens = usage.input + usage.cache_read + usage.cache_write
    context_usage.record_count(sent, input_tokens)
    if context_usage.calibration.limit is not None and input_tokens > context_usage.calibration.limit:
        context_usage.calibration.limit = None
    return input_tokens


def _retry_from_tokens(used: int, window: ContextWindow) -> int:
    """Return the size at which the next compaction may be tried after one that left `used` tokens: any size if that
    made enough room, else when half of the rest of the window is used."""
    if used < window.usable * RELIEF_SHARE:
        return 0
    return used + max((window.limit - used) // 2, int(used * (RETRY_GROWTH - 1)))


def _spoken_to(cut_points: Sequence[CutPoint], start: CutPoint | None) -> str:
    """Return the name of the agent that was spoken to before the tail's first message."""
    if start is None:
        return ""
    return next(
        (point.spoken_to for point in cut_points if point.message_id == start.message_id and point.step == 0), ""
    )
