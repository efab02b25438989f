"""Room in the model's window: looked after before every model call of a turn, between tool rounds too."""

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
"""Tokens; an error about less means something else."""
RETRY_GROWTH = 1.05
"""After a compaction that failed the next one is tried when the conversation has grown by so much."""
MIN_RESULT_CHARACTERS = 400
"""Characters that are left of a result, however little room there is."""
TARGET_SHARE = 0.5
"""What results are shortened to, as a part of what prompt and tools leave: in the rest several turns have room."""
MAX_SUMMARY_SHARE = 1 / 3
"""What a summary may take of it at most."""
MAX_SUMMARY_OF_HEAD = 0.9
"""The same of what it sums up: one that is no shorter is none."""
RELIEF_SHARE = 0.9
"""What a compaction must bring the conversation below, as a part of what is usable: else the next call would want
another one, and so would every call behind it."""
REFUSED_SHRINK = 0.7
"""Of a request that was too long, where the provider does not say how much it takes: as much is tried next."""

log = logger(__name__)


class ContextBudget(Protocol):
    """What a turn needs to know of it."""

    @property
    def compacted(self) -> bool:
        """Whether the last `make` has made any."""
        ...

    def compact_if_needed(self, tools: bytes | None, *, forced: bool = False) -> AsyncIterator[c.Chunk]:
        """Compacts the conversation if it has grown too long; `forced` also if it seems not to have."""
        ...

    async def require_fits(self, tools: bytes | None) -> None:
        """Raises ModelError `context_overflow` after a switch to a model that what was said cannot be made to fit, so
        that it is refused before it is sent. Without a switch the provider has the last word."""
        ...

    def record_usage(self, sent: int, usage: Usage) -> None:
        """A call with so many messages was answered, and this is what it took."""
        ...

    def record_overflow(self, error: ModelError) -> None:
        """The provider says that it was too long."""
        ...


class NoCompaction:
    """Where nobody looks after it."""

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
    """Of a turn that is told one thing and ends: nothing in it can be summed up, but there is something to be learnt
    about its model."""

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
    """Looks after the windows of turns."""

    def open_budget(self, turn: Turn, view: View, recorder: Recorder, prompt: str) -> ContextBudget:
        """`prompt` is what the turn's agent is told."""
        ...

    def open_inline_budget(
        self, turn: Turn, view: View, rebuild_view: Callable[[Marker], View] | None
    ) -> ContextBudget:
        """Of a turn without rows: `again` builds its view behind a marker; none: it cannot be compacted."""
        ...


class NoContextBudgets:
    """Where no conversation grows long."""

    def open_budget(self, turn: Turn, view: View, recorder: Recorder, prompt: str) -> ContextBudget:
        return NoCompaction()

    def open_inline_budget(
        self, turn: Turn, view: View, rebuild_view: Callable[[Marker], View] | None
    ) -> ContextBudget:
        return NoCompaction()


@dataclass(frozen=True, slots=True)
class CompactionDeps:
    """What compactions of one conversation stand on."""

    view: View
    context_usage: ContextUsage
    get_window: Callable[[], ContextWindow]
    policy: CompactionPolicy
    summarize: Callable[[Sequence[bytes], int], Awaitable[Summary]]
    """The messages, in at most so many tokens. Raises NoSummary."""
    save_marker: Callable[[Marker, Summary], Awaitable[tuple[str, View]]]
    """Writes the marker down, and then reads the conversation back: the marker's id and the view behind it."""
    history: CompactionHistory
    model_switched: bool = False
    """The session's own model is another one."""


class AutoCompaction:
    """The room of one conversation."""

    def __init__(self, deps: CompactionDeps) -> None:
        self._deps, self.compacted = deps, False
        self._overflows = 0
        self._max_tokens: int | None = None
        """Tokens that this turn tries at most, after a refusal that did not say how many the provider takes."""
        self._used_tokens = 0
        """By the call that comes next."""

    def record_usage(self, sent: int, usage: Usage) -> None:
        taken, trials = _record_report(self._deps.context_usage, sent, usage), self._deps.history
        if trials.refused_tokens is not None and taken > trials.refused_tokens:
            trials.refused_tokens = None

    def record_overflow(self, error: ModelError) -> None:
        """What the error tells of the window and of the request is learnt."""
        self._overflows += 1
        if not _learn(self._deps.context_usage, error) and self._used_tokens >= MIN_WINDOW:
            trials = self._deps.history
            trials.refused_tokens = min(self._used_tokens, trials.refused_tokens or self._used_tokens)
            self._max_tokens = int(min(self._used_tokens, self._max_tokens or self._used_tokens) * REFUSED_SHRINK)

    async def require_fits(self, tools: bytes | None) -> None:
        gauge, window = self._deps.context_usage, self._deps.get_window()
        limit = window.limit
        if not self._deps.model_switched or not window.known or self._used_tokens <= limit:
            return
        if (sizes := await too_long(gauge.calibration, self._deps.view.messages, tools, limit)) is None:
            return
        model = gauge.calibration.model
        text = f"what was said has {sizes[0]} tokens, more than can be compacted for model {model}, which "
        more = f"takes {limit} and has {sizes[1]} left beside prompt and tools: choose a larger one or fork the session"
        raise ModelError(text + more, code="context_overflow")

    async def compact_if_needed(self, tools: bytes | None, *, forced: bool = False) -> AsyncIterator[c.Chunk]:
        self.compacted = False
        gauge, view, trials = self._deps.context_usage, self._deps.view, self._deps.history
        window = (
            self._deps.get_window()
            .narrowed(gauge.calibration.limit)
            .narrowed(trials.refused_tokens)
            .narrowed(self._max_tokens)
        )
        used = self._used_tokens = gauge.occupancy(view.messages, tools)
        if not forced and (used < window.usable or used < trials.not_before):
            return
        compact = self._plan(window, tools)
        if compact is None:
            return
        yield c.DataChunk(type="data-status", data={"state": "compacting", "context_tokens": used}, transient=True)
        try:
            marker_id, marker = await compact()
        except NoSummary as failure:
            trials.not_before = int(used * RETRY_GROWTH)
            log.warning("a conversation could not be compacted", error=str(failure), context_tokens=used)
            status = {"state": "uncompacted", "message": str(failure), "context_tokens": used}
            yield c.DataChunk(type="data-status", data=status, transient=True)
            last = self._plan_shortening(*self._space(window, tools)) if forced else None
            if last is None:
                return
            marker_id, marker = await last()
        self.compacted = True
        self._used_tokens = gauge.occupancy(view.messages, tools)
        trials.not_before = _retry_from_tokens(self._used_tokens, window)
        yield c.DataChunk(type=COMPACTION, id=marker_id, data=marker.to_part()["data"], transient=True)

    def _plan(self, window: ContextWindow, tools: bytes | None) -> Callable[[], Awaitable[tuple[str, Marker]]] | None:
        """What would make room: a summary, or where there is nothing to sum up, results that are shown in part."""
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
        """Tokens of prompt and tools, and what they leave of what is usable."""
        gauge, messages = self._deps.context_usage, self._deps.view.messages
        fixed = max(0, gauge.occupancy(messages, tools) - sum(gauge.costs(messages)[1:]))
        return fixed, max(0, window.usable - fixed)

    def _plan_shortening(self, fixed: int, space: int) -> Callable[[], Awaitable[tuple[str, Marker]]] | None:
        """Nothing is left out, and the largest results are shown in part: that needs no model. None: there are none."""
        view, over = self._deps.view, self._used_tokens - fixed - int(space * TARGET_SHARE)
        shortened = tuple(self._shortened(view.cut_points[0], over)) if view.cut_points else ()
        marker = view.marker_without_cut(shortened) if set(shortened) != set(view.shortened) else None
        return (lambda: self._save_marker(marker, Summary(marker.summary, marker.summary_tokens))) if marker else None

    async def _compact_with_summary(self, cut: Cut, max_tokens: int, target_tokens: int) -> tuple[str, Marker]:
        """`most`: tokens of the summary; `target`: of the summary and the tail."""
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
        """Which results of the tail are cut: those that were before, and further ones, the largest first, until so many
        tokens are saved."""
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
    """Takes in what an error about a request that was too long says; whether it says how much the provider takes."""
    told = context_usage.record_overflow(error.message)
    if told is None or told.limit is None or told.limit < MIN_WINDOW:
        return False
    context_usage.calibration.limit = told.limit
    return True


def _record_report(context_usage: ContextUsage, sent: int, usage: Usage) -> int:
    """Takes in what the model says it was sent, in tokens. One that takes more than it was said to take was slandered:
    an error may quote what somebody has written."""
    context_usage.record_report(sent, usage)
    taken = usage.input + usage.cache_read + usage.cache_write
    if context_usage.calibration.limit is not None and taken > context_usage.calibration.limit:
        context_usage.calibration.limit = None
    return taken


def _retry_from_tokens(used: int, window: ContextWindow) -> int:
    """Below how many tokens no other compaction is tried after one that has left so many: it could do no better."""
    if used < window.usable * RELIEF_SHARE:
        return 0
    return used + max((window.limit - used) // 2, int(used * (RETRY_GROWTH - 1)))


def _spoken_to(cut_points: Sequence[CutPoint], start: CutPoint | None) -> str:
    """Who was spoken to before the tail's first message."""
    if start is None:
        return ""
    return next(
        (place.spoken_to for place in cut_points if place.message_id == start.message_id and place.step == 0), ""
    )
