"""A set of numbers, kept as the ranges that they make: most that are in it follow each other."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence


class Ranges:
    """Numbers as sorted ranges that do not touch."""

    __slots__ = ("_firsts", "_lasts")

    def __init__(self, given: Iterable[int | Sequence[int]] = ()) -> None:
        """`given`: numbers, and pairs of the first and the last number of a range."""
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        for one in given:
            self.add(one) if isinstance(one, int) else self.add(*one)

    def __contains__(self, number: int) -> bool:
        at = bisect_right(self._firsts, number) - 1
        return at >= 0 and number <= self._lasts[at]

    def add(self, first: int, last: int | None = None) -> None:
        """Add a number, or all from the first to the last; nothing if that is smaller."""
        last = first if last is None else last
        if last < first:
            return
        begin = bisect_left(self._lasts, first - 1)
        end = bisect_right(self._firsts, last + 1)
        if begin < end:
            first = min(first, self._firsts[begin])
            last = max(last, self._lasts[end - 1])
        self._firsts[begin:end] = [first]
        self._lasts[begin:end] = [last]

    def remove_through(self, number: int) -> None:
        """Remove all up to a number."""
        kept = [(max(first, number + 1), last) for first, last in self.pairs() if last > number]
        self._firsts = [first for first, _ in kept]
        self._lasts = [last for _, last in kept]

    def remove(self, number: int) -> None:
        """Remove a number, if it is there."""
        kept = self.pairs()
        self._firsts = []
        self._lasts = []
        for first, last in kept:
            if first <= number <= last:
                self.add(first, number - 1)
                self.add(number + 1, last)
            else:
                self.add(first, last)

    def pairs(self) -> list[tuple[int, int]]:
        """Return the first and the last number of each range."""
        return list(zip(self._firsts, self._lasts, strict=True))
