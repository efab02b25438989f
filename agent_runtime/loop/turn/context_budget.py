"""Keep a conversation within the model's window; checked before every model call, between tool rounds too."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from agent_common.protocol import CompactionPolicy, Usage
from agent_common.protocol import chunks as c
from agent_common.telemetry import logger

from ...context import (
    MIN_SUMMARY,
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
from ...sessions import COMPACTION, Marker, Recorder, Shortened
from .summary_strategies import NoSummary, Summary

if TYPE_CHECKING:
    from ..core.turn_state import Turn

MIN_WINDOW = 1024
"""Tokens. An error that reports a smaller window is misread and ignored."""
RETRY_GROWTH = 1.05
"""After a failed compaction, factor by which the conversation must grow before the next attempt."""
MIN_RESULT_CHARACTERS = 400
"""Characters that are always kept of a shortened result."""
TARGET_SHARE = 0.5
"""Share of the space beside prompt and tools to which results are shortened; the rest is room for several turns."""
MAX_SUMMARY_SHARE = 1 / 3
"""Maximum share of that space for a summary."""
MAX_SUMMARY_OF_HEAD = 0.9
"""Maximum length of a summary relative to what it replaces."""
RELIEF_SHARE = 0.9
"""Share of the usable window below which a compaction must bring the conversation; otherwise every call would start
another compaction."""
REFUSED_SHRINK = 0.7
"""Factor to shrink a refused request by if the provider does not report its limit."""

log = logger(__name__)


class ContextBudget(Protocol):
    """The context budget as a turn uses it."""

    @property
    def compacted(self) -> bool:
        """Whether the last `compact_if_needed` compacted the conversation."""
        ...

    def compact_if_needed(self, tools: bytes | None, *, forced: bool = False) -> AsyncIterator[c.Chunk]:
        """Compact the conversation if it has grown too long, or in any case with `forced`."""
        ...

    async def require_fits(self, tools: bytes | None) -> None:
        """Raise ModelError `context_overflow` if the turn switched to a model whose window the conversation cannot be
        made to fit. Without a switch the provider decides."""
        ...

    def record_usage(self, sent: int, usage: Usage) -> None:
        """Calibrate token counts with the usage of a call that sent that many messages."""
        ...

    def record_overflow(self, error: ModelError) -> None:
        """Learn from the provider's error that a request was too long."""
        ...


class NoCompaction:
    """The context budget of turns that are never compacted."""

    compacted = False

    async def require_fits(self, tools: bytes | None) -> None:
        return

    async def compact_if_needed(self, tools: bytes | None, *, forced: bool = False) -> AsyncIterator[c.Chunk]:
        return
        yield

    def record_usage(self, sent: int, usage: Usage) -> None:
        return

    def record_overflow(self, error: ModelError) -> None:
        return


class ObserveOnly:
    """The budget of a single-shot turn: it never compacts, but calibrates token counts from the model's usage."""

    compacted = False

    def __init__(self, view: View, context_usage: ContextUsage) -> None:
        self._view, self._context_usage = view, context_usage

    async def compact_if_needed(self, tools: bytes | None, *, forced: bool = False) -> AsyncIterator[c.Chunk]:
        self._context_usage.occupancy(self._view.messages, tools)
        return
        yield

    async def require_fits(self, tools: bytes | None) -> None:
        return

    def record_usage(self, sent: int, usage: Usage) -> None:
        _record_report(self._context_usage, sent, usage)

    def record_overflow(self, error: ModelError) -> None:
        _learn(self._context_usage, error)


class ContextBudgets(Protocol):
    """Opens the context budgets of turns."""

    def open_budget(self, turn: Turn, view: View, recorder: Recorder, prompt: str) -> ContextBudget:
        """Open the budget of a recorded turn. `prompt` is the system prompt of its agent."""
        ...

    def open_inline_budget(
        self, turn: Turn, view: View, rebuild_view: Callable[[Marker], View] | None
    ) -> ContextBudget:
        """Open the budget of a turn without rows. `rebuild_view` makes the view after a marker; None: never compact."""
        ...


class NoContextBudgets:
    """Opens budgets that never compact."""

    def open_budget(self, turn: Turn, view: View, recorder: Recorder, prompt: str) -> ContextBudget:
        return NoCompaction()

    def open_inline_budget(
        self, turn: Turn, view: View, rebuild_view: Callable[[Marker], View] | None
    ) -> ContextBudget:
        return NoCompaction()


@dataclass(frozen=True, slots=True)
class CompactionDeps:
    """The dependencies of one conversation's compactions."""

    view: View
    context_usage: ContextUsage
    get_window: Callable[[], ContextWindow]
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
        self._deps, self.compacted = deps, False
        self._overflows = 0
        self._max_tokens: int | None = None
        """Maximum tokens that this turn still sends, after a refusal that did not report the provider's limit."""
        self._used_tokens = 0
        """Tokens of the next call."""

    def record_usage(self, sent: int, usage: Usage) -> None:
        taken, history = _record_report(self._deps.context_usage, sent, usage), self._deps.history
        if history.refused_tokens is not None and taken > history.refused_tokens:
            history.refused_tokens = None

    def record_overflow(self, error: ModelError) -> None:
        """Learn the window and the size of the request from the error."""
        self._overflows += 1
        if not _learn(self._deps.context_usage, error) and self._used_tokens >= MIN_WINDOW:
            history = self._deps.history
            history.refused_tokens = min(self._used_tokens, history.refused_tokens or self._used_tokens)
            self._max_tokens = int(min(self._used_tokens, self._max_tokens or self._used_tokens) * REFUSED_SHRINK)

    async def require_fits(self, tools: bytes | None) -> None:
        context_usage, window = self._deps.context_usage, self._deps.get_window()
        limit = window.limit
        if not self._deps.model_switched or not window.known or self._used_tokens <= limit:
            return
        if (sizes := await too_long(context_usage.calibration, self._deps.view.messages, tools, limit)) is None:
            return
        model = context_usage.calibration.model
        text = f"what was said has {sizes[0]} tokens, more than can be compacted for model {model}, which "
        more = f"takes {limit} and has {sizes[1]} left beside prompt and tools: choose a larger one or fork the session"
        raise ModelError(text + more, code="context_overflow")

    async def compact_if_needed(self, tools: bytes | None, *, forced: bool = False) -> AsyncIterator[c.Chunk]:
        self.compacted = False
        context_usage, view, history = self._deps.context_usage, self._deps.view, self._deps.history
        window = (
            self._deps.get_window()
            .narrowed(context_usage.calibration.limit)
            .narrowed(history.refused_tokens)
            .narrowed(self._max_tokens)
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
            last = self._plan_shortening(*self._space(window, tools)) if forced else None
            if last is None:
                return
            marker_id, marker = await last()
        self.compacted = True
        self._used_tokens = context_usage.occupancy(view.messages, tools)
        history.not_before = _retry_from_tokens(self._used_tokens, window)
        yield c.DataChunk(type=COMPACTION, id=marker_id, data=marker.to_part()["data"], transient=True)

    def _plan(self, window: ContextWindow, tools: bytes | None) -> Callable[[], Awaitable[tuple[str, Marker]]] | None:
        """Return the compaction that would make room: a summary, or else shortened results. None if neither is
        possible."""
        view, policy = self._deps.view, self._deps.policy
        costs = self._deps.context_usage.costs(view.messages)
        fixed, space = self._space(window, tools)
        budget = space * policy.tail_budget_pct // 100 // (1 + self._overflows)
        cut = cut_for(view.cut_points, costs, turns=policy.tail_turns, budget=budget)
        if cut is None:
            return self._plan_shortening(fixed, space)
        head = sum(costs[at] for at in cut.head)
        most = max(
            MIN_SUMMARY, min(window.max_summary, int(space * MAX_SUMMARY_SHARE), int(head * MAX_SUMMARY_OF_HEAD))
        )
        return lambda: self._compact_with_summary(cut, most, int(space * TARGET_SHARE))

    def _space(self, window: ContextWindow, tools: bytes | None) -> tuple[int, int]:
        """Return the tokens of prompt and tools, and the usable tokens beside them."""
        context_usage, messages = self._deps.context_usage, self._deps.view.messages
        fixed = max(0, context_usage.occupancy(messages, tools) - sum(context_usage.costs(messages)[1:]))
        return fixed, max(0, window.usable - fixed)

    def _plan_shortening(self, fixed: int, space: int) -> Callable[[], Awaitable[tuple[str, Marker]]] | None:
        """Return a plan that only shortens the largest results, which needs no model. None if there are none."""
        view, over = self._deps.view, self._used_tokens - fixed - int(space * TARGET_SHARE)
        shortened = tuple(self._shortened(view.cut_points[0], over)) if view.cut_points else ()
        marker = view.marker_without_cut(shortened) if set(shortened) != set(view.shortened) else None
        return (lambda: self._save_marker(marker, Summary(marker.summary, marker.summary_tokens))) if marker else None

    async def _compact_with_summary(self, cut: Cut, max_tokens: int, target_tokens: int) -> tuple[str, Marker]:
        """`max_tokens` limits the summary, `target_tokens` the summary and the tail."""
        view = self._deps.view
        summary = await self._deps.summarize([view.messages[at] for at in cut.head], max_tokens)
        over = summary.tokens + cut.tail_tokens - target_tokens
        marker = Marker(
            summary=summary.text,
            summary_tokens=summary.tokens,
            auto=True,
            tail_start_id=cut.start.message_id if cut.start else None,
            tail_start_step=cut.start.step if cut.start else 0,
            spoken_to=_spoken_to(view.cut_points, cut.start),
            shortened=tuple(self._shortened(cut.start, over)) if cut.start else (),
        )
        return await self._save_marker(marker, summary)

    async def _save_marker(self, marker: Marker, summary: Summary) -> tuple[str, Marker]:
        marker_id, after = await self._deps.save_marker(marker, summary)
        self._deps.view.replace_with(after)
        self._deps.context_usage.reset()
        return marker_id, marker

    def _shortened(self, start: CutPoint, over: int) -> list[Shortened]:
        """Return the shortened results of the tail: those shortened earlier, and further ones, the largest first, until
        `over` tokens are saved."""
        view = self._deps.view
        results = sorted(view.results(start), key=lambda one: -len(one.text))
        there = {(one.message_id, one.call_id) for one in results}
        kept = {key: one for one in view.shortened if (key := (one.message_id, one.call_id)) in there}
        for one in results:
            if over <= 0 or len(one.text) <= MIN_RESULT_CHARACTERS:
                break
            cost = self._deps.context_usage.text_tokens(one.text)
            left = max(MIN_RESULT_CHARACTERS, int(len(one.text) * max(0.0, 1 - over / cost) * 0.9))
            kept[one.message_id, one.call_id] = Shortened(one.message_id, one.call_id, left)
            over -= cost - cost * left // len(one.text)
        return list(kept.values())


def _learn(context_usage: ContextUsage, error: ModelError) -> bool:
    """Learn from an error about a request that was too long. Returns whether it reports the provider's limit."""
    overflow = context_usage.record_overflow(error.message)
    if overflow is None or overflow.limit is None or overflow.limit < MIN_WINDOW:
        return False
    context_usage.calibration.limit = overflow.limit
    return True


def _record_report(context_usage: ContextUsage, sent: int, usage: Usage) -> int:
    """Learn from the usage that the model reports; returns the input tokens. If they exceed the known limit, the limit
    is dropped: it came from an error text, which may quote user content."""
    context_usage.record_report(sent, usage)
    taken = usage.input + usage.cache_read + usage.cache_write
    if context_usage.calibration.limit is not None and taken > context_usage.calibration.limit:
        context_usage.calibration.limit = None
    return taken


def _retry_from_tokens(used: int, window: ContextWindow) -> int:
    """Return the size below which no further compaction is tried after one that left `used` tokens."""
    if used < window.usable * RELIEF_SHARE:
        return 0
    return used + max((window.limit - used) // 2, int(used * (RETRY_GROWTH - 1)))


def _spoken_to(cut_points: Sequence[CutPoint], start: CutPoint | None) -> str:
    """Return the name of the agent that was spoken to before the tail's first message."""
    if start is None:
        return ""
    return next(
        (place.spoken_to for place in cut_points if place.message_id == start.message_id and place.step == 0), ""
    )
