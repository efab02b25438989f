"""Room in the model's window: looked after before every model call of a turn, between tool rounds too."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from agent_common.protocol import CompactionPolicy, Usage
from agent_common.protocol import chunks as c
from agent_common.telemetry import logger

from ...context import (
    LEAST_SUMMARY,
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

NEAR = 0.9
"""Of what is usable; from there on tokens are counted."""
LEAST_WINDOW = 1024
"""Tokens; an error about less means something else."""
PATIENCE = 1.05
"""After a compaction that failed the next one is tried when the conversation has grown by so much."""
LEAST_RESULT = 400
"""Characters that are left of a result, however little room there is."""
TARGET = 0.5
"""What results are shortened to, as a part of what prompt and tools leave: in the rest several turns have room."""
SUMMARY = 1 / 3
"""What a summary may take of it at most."""
SHORTER = 0.9
"""The same of what it sums up: one that is no shorter is none."""
SLACK = 0.9
"""What a compaction must bring the conversation below, as a part of what is usable: else the next call would want
another one, and so would every call behind it."""
SHRINK = 0.7
"""Of a request that was too long, where the provider does not say how much it takes: as much is tried next."""

log = logger(__name__)


class ContextBudget(Protocol):
    """What a turn needs to know of it."""

    @property
    def made(self) -> bool:
        """Whether the last `make` has made any."""
        ...

    def make(self, tools: bytes | None, *, forced: bool = False) -> AsyncIterator[c.Chunk]:
        """Compacts the conversation if it has grown too long; `forced` also if it seems not to have."""
        ...

    async def require(self, tools: bytes | None) -> None:
        """Raises ModelError `context_overflow` after a switch to a model that what was said cannot be made to fit, so
        that it is refused before it is sent. Without a switch the provider has the last word."""
        ...

    def answered(self, sent: int, usage: Usage) -> None:
        """A call with so many messages was answered, and this is what it took."""
        ...

    def refused(self, error: ModelError) -> None:
        """The provider says that it was too long."""
        ...


class NoCompaction:
    """Where nobody looks after it."""

    made = False

    async def require(self, tools: bytes | None) -> None:
        return

    async def make(self, tools: bytes | None, *, forced: bool = False) -> AsyncIterator[c.Chunk]:
        return
        yield

    def answered(self, sent: int, usage: Usage) -> None:
        return

    def refused(self, error: ModelError) -> None:
        return


class ObserveOnly:
    """Of a turn that is told one thing and ends: nothing in it can be summed up, but there is something to be learnt
    about its model."""

    made = False

    def __init__(self, view: View, gauge: ContextUsage) -> None:
        self._view, self._gauge = view, gauge

    async def make(self, tools: bytes | None, *, forced: bool = False) -> AsyncIterator[c.Chunk]:
        self._gauge.occupancy(self._view.messages, tools)
        return
        yield

    async def require(self, tools: bytes | None) -> None:
        return

    def answered(self, sent: int, usage: Usage) -> None:
        _taken(self._gauge, sent, usage)

    def refused(self, error: ModelError) -> None:
        _learn(self._gauge, error)


class ContextBudgets(Protocol):
    """Looks after the windows of turns."""

    def room(self, turn: Turn, view: View, recorder: Recorder, prompt: str) -> ContextBudget:
        """`prompt` is what the turn's agent is told."""
        ...

    def nested_room(self, turn: Turn, view: View, again: Callable[[Marker], View] | None) -> ContextBudget:
        """Of a turn without rows: `again` builds its view behind a marker; none: it cannot be compacted."""
        ...


class NoContextBudgets:
    """Where no conversation grows long."""

    def room(self, turn: Turn, view: View, recorder: Recorder, prompt: str) -> ContextBudget:
        return NoCompaction()

    def nested_room(self, turn: Turn, view: View, again: Callable[[Marker], View] | None) -> ContextBudget:
        return NoCompaction()


@dataclass(frozen=True, slots=True)
class CompactionDeps:
    """What compactions of one conversation stand on."""

    view: View
    gauge: ContextUsage
    window: Callable[[], ContextWindow]
    policy: CompactionPolicy
    sum_up: Callable[[Sequence[bytes], int], Awaitable[Summary]]
    """The messages, in at most so many tokens. Raises NoSummary."""
    keep: Callable[[Marker, Summary], Awaitable[tuple[str, View]]]
    """Writes the marker down, and then reads the conversation back: the marker's id and the view behind it."""
    trials: CompactionHistory
    switched: bool = False
    """The session's own model is another one."""


class AutoCompaction:
    """The room of one conversation."""

    def __init__(self, ground: CompactionDeps) -> None:
        self._at, self.made = ground, False
        self._refusals = 0
        self._ceiling: int | None = None
        """Tokens that this turn tries at most, after a refusal that did not say how many the provider takes."""
        self._used = 0
        """By the call that comes next."""

    def answered(self, sent: int, usage: Usage) -> None:
        taken, trials = _taken(self._at.gauge, sent, usage), self._at.trials
        if trials.refused is not None and taken > trials.refused:
            trials.refused = None

    def refused(self, error: ModelError) -> None:
        """What the error tells of the window and of the request is learnt."""
        self._refusals += 1
        if not _learn(self._at.gauge, error) and self._used >= LEAST_WINDOW:
            trials = self._at.trials
            trials.refused = min(self._used, trials.refused or self._used)
            self._ceiling = int(min(self._used, self._ceiling or self._used) * SHRINK)

    async def require(self, tools: bytes | None) -> None:
        gauge, window = self._at.gauge, self._at.window()
        limit = window.limit
        if not self._at.switched or not window.known or self._used <= limit:
            return
        if (sizes := await too_long(gauge.meter, self._at.view.messages, tools, limit)) is None:
            return
        text = f"what was said has {sizes[0]} tokens, more than can be compacted for model {gauge.meter.model}, which "
        more = f"takes {limit} and has {sizes[1]} left beside prompt and tools: choose a larger one or fork the session"
        raise ModelError(text + more, code="context_overflow")

    async def make(self, tools: bytes | None, *, forced: bool = False) -> AsyncIterator[c.Chunk]:
        self.made = False
        gauge, view, trials = self._at.gauge, self._at.view, self._at.trials
        window = self._at.window().narrowed(gauge.meter.limit).narrowed(trials.refused).narrowed(self._ceiling)
        used = self._used = await self._counted(tools, int(window.usable * NEAR))
        if not forced and (used < window.usable or used < trials.not_before):
            return
        compact = self._plan(window, tools)
        if compact is None:
            return
        yield c.DataChunk(type="data-status", data={"state": "compacting", "context_tokens": used}, transient=True)
        try:
            marker_id, marker = await compact()
        except NoSummary as failure:
            trials.not_before = int(used * PATIENCE)
            log.warning("a conversation could not be compacted", error=str(failure), context_tokens=used)
            status = {"state": "uncompacted", "message": str(failure), "context_tokens": used}
            yield c.DataChunk(type="data-status", data=status, transient=True)
            last = self._in_part(*self._space(window, tools)) if forced else None
            if last is None:
                return
            marker_id, marker = await last()
        self.made = True
        self._used = gauge.occupancy(view.messages, tools)
        trials.not_before = _until(self._used, window)
        yield c.DataChunk(type=COMPACTION, id=marker_id, data=marker.part()["data"], transient=True)

    async def _counted(self, tools: bytes | None, near: int) -> int:
        """Tokens of the next call: estimated on top of what the model has counted. One that reports nothing has them
        counted here near the edge, where that can be done: what is needed for it takes a while to load."""
        gauge, messages = self._at.gauge, self._at.view.messages
        used = gauge.occupancy(messages, tools)
        return used if used < near or gauge.reported_once else await gauge.exact(messages, tools)

    def _plan(self, window: ContextWindow, tools: bytes | None) -> Callable[[], Awaitable[tuple[str, Marker]]] | None:
        """What would make room: a summary, or where there is nothing to sum up, results that are shown in part."""
        view, policy = self._at.view, self._at.policy
        costs = self._at.gauge.costs(view.messages)
        fixed, space = self._space(window, tools)
        budget = space * policy.tail_budget_pct // 100 // (1 + self._refusals)
        cut = cut_for(view.places, costs, turns=policy.tail_turns, budget=budget)
        if cut is None:
            return self._in_part(fixed, space)
        head = sum(costs[at] for at in cut.head)
        most = max(LEAST_SUMMARY, min(window.summary, int(space * SUMMARY), int(head * SHORTER)))
        return lambda: self._summed_up(cut, most, int(space * TARGET))

    def _space(self, window: ContextWindow, tools: bytes | None) -> tuple[int, int]:
        """Tokens of prompt and tools, and what they leave of what is usable."""
        gauge, messages = self._at.gauge, self._at.view.messages
        fixed = max(0, gauge.occupancy(messages, tools) - sum(gauge.costs(messages)[1:]))
        return fixed, max(0, window.usable - fixed)

    def _in_part(self, fixed: int, space: int) -> Callable[[], Awaitable[tuple[str, Marker]]] | None:
        """Nothing is left out, and the largest results are shown in part: that needs no model. None: there are none."""
        view, over = self._at.view, self._used - fixed - int(space * TARGET)
        shortened = tuple(self._shortened(view.places[0], over)) if view.places else ()
        marker = view.unmoved(shortened) if set(shortened) != set(view.shortened) else None
        return (lambda: self._keep(marker, Summary(marker.summary, marker.summary_tokens))) if marker else None

    async def _summed_up(self, cut: Cut, most: int, target: int) -> tuple[str, Marker]:
        """`most`: tokens of the summary; `target`: of the summary and the tail."""
        view = self._at.view
        summary = await self._at.sum_up([view.messages[at] for at in cut.head], most)
        over = summary.tokens + cut.tail - target
        marker = Marker(
            summary=summary.text,
            summary_tokens=summary.tokens,
            auto=True,
            tail_start_id=cut.start.message_id if cut.start else None,
            tail_start_step=cut.start.step if cut.start else 0,
            spoken_to=_spoken_to(view.places, cut.start),
            shortened=tuple(self._shortened(cut.start, over)) if cut.start else (),
        )
        return await self._keep(marker, summary)

    async def _keep(self, marker: Marker, summary: Summary) -> tuple[str, Marker]:
        marker_id, after = await self._at.keep(marker, summary)
        self._at.view.become(after)
        self._at.gauge.reset()
        return marker_id, marker

    def _shortened(self, start: CutPoint, over: int) -> list[Shortened]:
        """Which results of the tail are cut: those that were before, and further ones, the largest first, until so many
        tokens are saved."""
        view = self._at.view
        results = sorted(view.results(start), key=lambda one: -len(one.text))
        there = {(one.message_id, one.call_id) for one in results}
        kept = {key: one for one in view.shortened if (key := (one.message_id, one.call_id)) in there}
        for one in results:
            if over <= 0 or len(one.text) <= LEAST_RESULT:
                break
            cost = self._at.gauge.text(one.text)
            left = max(LEAST_RESULT, int(len(one.text) * max(0.0, 1 - over / cost) * 0.9))
            kept[one.message_id, one.call_id] = Shortened(one.message_id, one.call_id, left)
            over -= cost - cost * left // len(one.text)
        return list(kept.values())


def _learn(gauge: ContextUsage, error: ModelError) -> bool:
    """Takes in what an error about a request that was too long says; whether it says how much the provider takes."""
    told = gauge.refused(error.message)
    if told is None or told.limit is None or told.limit < LEAST_WINDOW:
        return False
    gauge.meter.limit = told.limit
    return True


def _taken(gauge: ContextUsage, sent: int, usage: Usage) -> int:
    """Takes in what the model says it was sent, in tokens. One that takes more than it was said to take was slandered:
    an error may quote what somebody has written."""
    gauge.reported(sent, usage)
    taken = usage.input + usage.cache_read + usage.cache_write
    if gauge.meter.limit is not None and taken > gauge.meter.limit:
        gauge.meter.limit = None
    return taken


def _until(used: int, window: ContextWindow) -> int:
    """Below how many tokens no other compaction is tried after one that has left so many: it could do no better."""
    if used < window.usable * SLACK:
        return 0
    return used + max((window.limit - used) // 2, int(used * (PATIENCE - 1)))


def _spoken_to(places: Sequence[CutPoint], start: CutPoint | None) -> str:
    """Who was spoken to before the tail's first message."""
    if start is None:
        return ""
    return next((place.spoken_to for place in places if place.message_id == start.message_id and place.step == 0), "")
