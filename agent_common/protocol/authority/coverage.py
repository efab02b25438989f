"""Which patterns of a list of rules cover which others: worked out where a decision needs it, and kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from .globs import covers


class Coverage:
    """Compares the patterns of one list of rules. Sets of them are bit masks of their places in the list."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = patterns
        self._rows = [(0, 0, 0)] * len(patterns)
        """For each pattern: those it was compared with, those of them that it covers, and of these the narrower."""

    def covered_by(self, at: int, others: int) -> tuple[int, int]:
        """Return which of the others the pattern covers, and which of these do not cover it in turn."""
        compared, covered, narrower = self._rows[at]
        for other in _places(others & ~compared):
            if covers(self._patterns[at], self._patterns[other]):
                covered |= 1 << other
                narrower |= 0 if covers(self._patterns[other], self._patterns[at]) else 1 << other
        # One assignment, since decisions in threads share this: the last one counts, and is right by itself.
        self._rows[at] = (compared | others, covered, narrower)
        return covered & others, narrower & others


@lru_cache(maxsize=32)
def coverage_of(patterns: tuple[str, ...]) -> Coverage:
    """Return what is known about these patterns."""
    return Coverage(patterns)


def _places(mask: int) -> Iterator[int]:
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest
