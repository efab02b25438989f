"""Compute the size of a model's window, and where to cut a conversation that no longer fits.

See docs/explanation/compaction.md#when.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

from .view import CutPoint

MAX_RESERVE = 20_000
"""Maximum tokens reserved for an answer."""
SUMMARY_CAP = 4_000
"""Maximum tokens of a summary."""
MIN_SUMMARY = 256
"""Minimum tokens allowed for a summary, even in a small window."""


@dataclass(frozen=True, slots=True)
class ContextWindow:
    """The window of one model, in tokens."""

    limit: int
    reserve: int
    known: bool = True
    """False: the limit is a common default, because the model's own is unknown."""

    @classmethod
    @lru_cache(maxsize=64)
    def from_limit(
        cls, limit: int, max_output: int | None, reserve: int | None = None, *, known: bool = True
    ) -> ContextWindow:
        """Return the window with its reserve in tokens: the least of 20,000, `max_output` and a quarter of `limit`. An
        explicit `reserve` replaces the first two; a quarter stays the most. `max_output` None means unknown."""
        wanted = min(MAX_RESERVE, max_output or MAX_RESERVE) if reserve is None else reserve
        return cls(limit, min(wanted, limit // 4), known)

    @property
    def usable(self) -> int:
        """Tokens at which the conversation is compacted."""
        return self.limit - self.reserve

    @property
    def max_summary(self) -> int:
        """Maximum tokens of a summary."""
        return max(MIN_SUMMARY, min(SUMMARY_CAP, self.reserve // 2))

    def narrowed(self, *limits: int | None) -> ContextWindow:
        """Return the window of a model that has itself reported a smaller limit. None: it has not."""
        limit = min((limit for limit in limits if limit is not None), default=self.limit)
        return self if limit >= self.limit else ContextWindow(limit, min(self.reserve, limit // 4))


@dataclass(slots=True)
class CompactionHistory:
    """The results of compacting one conversation with one model."""

    model: str = ""
    not_before: int = 0
    """Tokens below which compaction is not tried again, because the last one helped too little or failed."""
    refused_tokens: int | None = None
    """Size of a request that the provider refused without reporting its limit; None if there was none."""


@dataclass(frozen=True, slots=True)
class Cut:
    """The parts of a view that are summarized and kept verbatim."""

    head: range
    """Indexes of the messages that the summary replaces, including an earlier summary."""
    start: CutPoint | None
    """The beginning of the tail; None: nothing is kept. If it is inside a turn, that turn's user message is kept
    too."""
    tail_tokens: int
    """Tokens of the kept messages."""


def cut_for(cut_points: Sequence[CutPoint], costs: Sequence[int], *, turns: int, budget: int) -> Cut | None:
    """Return the cut that keeps the last `turns` turns, or fewer to stay within the budget; if even the last turn
    exceeds it, only its latest steps. `costs` are the tokens of each message. None if there is nothing to summarize."""
    begun = [point for point in cut_points if point.step == 0]
    tokens_from = list(accumulate(reversed(costs)))[::-1]  # sums from each message on, computed once
    for start in begun[-turns:]:
        cost = tokens_from[start.index]
        if cost <= budget and start.index > _first(cut_points):
            return Cut(range(1, start.index), start, cost)
    return _inside(cut_points, costs[begun[-1].index], tokens_from, begun[-1], budget) if begun else None


def cut_all(cut_points: Sequence[CutPoint], count: int) -> Cut | None:
    """Return the cut that keeps nothing of a view with `count` messages. None if it has no messages to cut."""
    return Cut(range(1, count), None, 0) if cut_points else None


def _first(cut_points: Sequence[CutPoint]) -> int:
    """Return the index of the first message of the conversation; before it there is at most an earlier summary."""
    return cut_points[0].index


def _inside(
    cut_points: Sequence[CutPoint], message: int, tokens_from: Sequence[int], turn: CutPoint, budget: int
) -> Cut | None:
    """Cut inside a turn: keep its message, which costs `message` tokens, and as many of its latest steps as the budget
    allows, but at least one."""
    steps = [point for point in cut_points if point.step and point.index > turn.index]
    earlier = turn.index > _first(cut_points)
    if not steps:
        return Cut(range(1, turn.index), turn, message) if earlier else None
    start = next((point for point in steps if message + tokens_from[point.index] <= budget), steps[-1])
    kept = message + tokens_from[start.index]
    if start is steps[0]:  # the whole turn is kept, so only earlier messages can be cut
        return Cut(range(1, turn.index), turn, kept) if earlier else None
    return Cut(range(1, start.index), start, kept)
