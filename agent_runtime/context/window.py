"""Compute how much fits into a model's window, and what is cut where it no longer fits.

See docs/explanation/compaction.md#when.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from .view import CutPoint

MAX_RESERVE = 20_000
"""Tokens that are kept free for an answer, where the window is large."""
SUMMARY_CAP = 4_000
"""Tokens of a summary, where the window is large."""
MIN_SUMMARY = 256
"""The same, however small the window."""


@dataclass(frozen=True, slots=True)
class ContextWindow:
    """What one model can take, in tokens."""

    limit: int
    reserve: int
    known: bool = True
    """False: nothing is known of it, and the limit is what most models have."""

    @classmethod
    def from_limit(
        cls, limit: int, max_output: int | None, reserve: int | None = None, *, known: bool = True
    ) -> ContextWindow:
        """Return the window with its reserve in tokens: the least of 20,000, `max_output` and a quarter of `limit`. An
        explicit `reserve` replaces the first two; a quarter stays the most. `max_output` None means unknown."""
        wanted = min(MAX_RESERVE, max_output or MAX_RESERVE) if reserve is None else reserve
        return cls(limit, min(wanted, limit // 4), known)

    @property
    def usable(self) -> int:
        """From here on the conversation is compacted."""
        return self.limit - self.reserve

    @property
    def max_summary(self) -> int:
        """What a summary may take of it."""
        return max(MIN_SUMMARY, min(SUMMARY_CAP, self.reserve // 2))

    def narrowed(self, limit: int | None) -> ContextWindow:
        """The same for a model that has told us itself how little it takes."""
        return self if limit is None or limit >= self.limit else ContextWindow(limit, min(self.reserve, limit // 4))


@dataclass(slots=True)
class CompactionHistory:
    """What came of compacting one conversation with a model."""

    model: str = ""
    not_before: int = 0
    """Tokens below which it is not tried again: the last time it did not help enough, or not at all."""
    refused_tokens: int | None = None
    """Tokens that the provider has refused without saying how many it takes."""


@dataclass(frozen=True, slots=True)
class Cut:
    """What of a view is summarised, and what is kept word for word."""

    head: range
    """Indexes of the messages whose place the summary takes; those of an earlier summary are among them."""
    start: CutPoint | None
    """Where the tail begins; none: nothing is kept. One inside of a turn keeps that turn's user message too."""
    tail_tokens: int
    """Tokens that are kept."""


def cut_for(cut_points: Sequence[CutPoint], costs: Sequence[int], *, turns: int, budget: int) -> Cut | None:
    """The cut that keeps the last turns, fewer when they take more than the budget, and of a last turn that does so
    alone its latest steps. `costs` are the tokens of each message. None: there is nothing that could be summarised."""
    begun = [place for place in cut_points if place.step == 0]
    behind = list(accumulate(reversed(costs)))[::-1]  # from each message on: a sum for each place would be a square
    for start in begun[-turns:]:
        cost = behind[start.index]
        if cost <= budget and start.index > _first(cut_points):
            return Cut(range(1, start.index), start, cost)
    return _inside(cut_points, costs[begun[-1].index], behind, begun[-1], budget) if begun else None


def cut_all(cut_points: Sequence[CutPoint], count: int) -> Cut | None:
    """The cut that keeps nothing of a view of so many messages; none where nothing was said."""
    return Cut(range(1, count), None, 0) if cut_points else None


def _first(cut_points: Sequence[CutPoint]) -> int:
    """Where what was said begins. A head that ends there would hold an earlier summary at most."""
    return cut_points[0].index


def _inside(
    cut_points: Sequence[CutPoint], message: int, tokens_from: Sequence[int], turn: CutPoint, budget: int
) -> Cut | None:
    """Splits a turn: its message, which costs so much, and as many of its latest steps as the budget has room for, but
    one at least."""
    steps = [place for place in cut_points if place.step and place.index > turn.index]
    earlier = turn.index > _first(cut_points)
    if not steps:
        return Cut(range(1, turn.index), turn, message) if earlier else None
    start = next((place for place in steps if message + tokens_from[place.index] <= budget), steps[-1])
    kept = message + tokens_from[start.index]
    if start is steps[0]:  # the whole turn: what lies before it must be worth a summary
        return Cut(range(1, turn.index), turn, kept) if earlier else None
    return Cut(range(1, start.index), start, kept)
