"""Count the steps that a backtracking engine takes, so that the growth of a pattern is known without a clock.

Patterns are parsed by the parser of `re`, which is private: nothing public tells how a pattern is built. A newer Python
that changes it fails the test of this package.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator
from typing import Any

c: Any = importlib.import_module("re._constants")
_parser: Any = importlib.import_module("re._parser")
MANY = 1000
"""A repeat with at least this maximum counts as one without an end."""
_FEW = 2
"""Most times that count of a repeat's minimum, and of what a maximum allows beyond it: both are factors of the cost."""
_MOST_STEPS = 60_000
_CATEGORIES: dict[Any, Callable[[str], bool]] = {
    c.CATEGORY_DIGIT: str.isdecimal,
    c.CATEGORY_SPACE: str.isspace,
    c.CATEGORY_WORD: lambda one: one.isalnum() or one == "_",
    c.CATEGORY_NOT_DIGIT: lambda one: not one.isdecimal(),
    c.CATEGORY_NOT_SPACE: lambda one: not one.isspace(),
    c.CATEGORY_NOT_WORD: lambda one: not (one.isalnum() or one == "_"),
}
_REPEATS = (c.MAX_REPEAT, c.MIN_REPEAT, c.POSSESSIVE_REPEAT)
_ONE = (c.LITERAL, c.NOT_LITERAL, c.ANY, c.IN)
Then = Callable[[int], int | None]
"""What is to match after a position; returns the end of the match, or None."""


class TooManySteps(Exception):
    """The pattern takes more steps than are worth counting."""


def parsed(pattern: str, flags: int) -> list[Any]:
    """Return the parts of a pattern."""
    return list(_parser.parse(pattern, flags))


def one_matches(node: Any, one: str, flags: int) -> bool:
    """Whether a part that stands for one character takes this one."""
    kind, about = node
    if kind is c.ANY:
        return one != "\n" or bool(flags & re.DOTALL)
    if kind is c.IN:
        taken = any(_member(member, one, flags) for member in about if member[0] is not c.NEGATE)
        return taken != (about[0][0] is c.NEGATE)
    return _same(about, one, flags) == (kind is c.LITERAL)


def _member(member: Any, one: str, flags: int) -> bool:
    kind, about = member
    if kind is c.CATEGORY:
        return _CATEGORIES[about](one)
    if kind is c.RANGE:
        return any(about[0] <= ord(case) <= about[1] for case in _cases(one, flags))
    return _same(about, one, flags)


def _same(code: int, one: str, flags: int) -> bool:
    return chr(code) in _cases(one, flags)


def _cases(one: str, flags: int) -> tuple[str, ...]:
    return (one, one.lower(), one.upper()) if flags & re.IGNORECASE else (one,)


class Matcher:
    """Matches a text, and counts its steps."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._groups = dict[Any, tuple[int, int]]()
        self.steps = 0

    def scan(self, parts: list[Any], flags: int, *, all_matches: bool) -> None:
        """Find the first match, as `search` does, or all of them. Raises TooManySteps."""
        at = 0
        while at <= len(self._text):
            end = self.match(parts, at, flags)
            if end is not None and not all_matches:
                return
            at = end if end is not None and end > at else at + 1

    def match(self, parts: list[Any], at: int, flags: int, then: Then = lambda at: at) -> int | None:
        """Match at a position. Raises TooManySteps."""
        self._step()
        if not parts:
            return then(at)
        rest = parts[1:]
        return self._part(parts[0], at, flags, (lambda end: self.match(rest, end, flags, then)) if rest else then)

    def _step(self) -> None:
        self.steps += 1
        if self.steps > _MOST_STEPS:
            raise TooManySteps

    def _part(self, node: Any, at: int, flags: int, then: Then) -> int | None:
        kind, about = node
        if kind in _ONE:
            return then(at + 1) if at < len(self._text) and one_matches(node, self._text[at], flags) else None
        if kind in _REPEATS:
            return self._repeat(node, at, flags, then)
        if kind is c.BRANCH:
            return next((end for one in about[1] if (end := self.match(list(one), at, flags, then)) is not None), None)
        if kind is c.SUBPATTERN:
            return self._group(about, at, flags, then)
        if kind is c.ATOMIC_GROUP:
            end = self.match(list(about), at, flags)
            return None if end is None else then(end)
        if kind in (c.ASSERT, c.ASSERT_NOT):
            return then(at) if self._looks(about, at, flags) == (kind is c.ASSERT) else None
        return self._other(node, at, flags, then)

    def _other(self, node: Any, at: int, flags: int, then: Then) -> int | None:
        kind, about = node
        if kind is c.AT:
            return then(at) if self._stands(about, at, flags) else None
        if kind is c.GROUPREF:
            begin, end = self._groups.get(about, (0, 0))
            same = self._text[begin:end]
            return then(at + len(same)) if self._text.startswith(same, at) else None
        if kind is c.GROUPREF_EXISTS:
            chosen = about[1] if about[0] in self._groups else about[2]
            return self.match(list(chosen or ()), at, flags, then)
        raise NotImplementedError(kind)

    def _group(self, about: Any, at: int, flags: int, then: Then) -> int | None:
        number, added, removed, parts = about

        def closed(end: int) -> int | None:
            before = self._groups.get(number)
            if number is not None:
                self._groups[number] = at, end
            found = then(end)
            if found is None and before is not None:
                self._groups[number] = before
            return found

        return self.match(list(parts), at, (flags | added) & ~removed, closed)

    def _looks(self, about: Any, at: int, flags: int) -> bool:
        direction, parts = about
        if direction >= 0:
            return self.match(list(parts), at, flags) is not None
        low, high = parts.getwidth()
        return any(
            self.match(list(parts), begin, flags, lambda end: end if end == at else None) is not None
            for begin in range(max(0, at - high), at - low + 1)
        )

    def _stands(self, where: Any, at: int, flags: int) -> bool:
        text = self._text
        multiline = flags & re.MULTILINE
        if where in (c.AT_BEGINNING, c.AT_BEGINNING_STRING):
            return at == 0 or bool(multiline and where is c.AT_BEGINNING and text[at - 1] == "\n")
        if where is c.AT_END_STRING:
            return at == len(text)
        if where is c.AT_END:
            return at == len(text) or (text[at] == "\n" and bool(multiline or at == len(text) - 1))
        word = _CATEGORIES[c.CATEGORY_WORD]
        edge = (at > 0 and word(text[at - 1])) != (at < len(text) and word(text[at]))
        return edge == (where is c.AT_BOUNDARY)

    def _repeat(self, node: Any, at: int, flags: int, then: Then) -> int | None:
        kind, (low, high, parts) = node
        low = min(low, _FEW)
        high = high if high >= MANY else min(high, low + _FEW)
        if len(parts) == 1 and parts[0][0] in _ONE:
            return self._run(kind, (low, high, parts[0]), at, flags, then)
        if kind is c.POSSESSIVE_REPEAT:
            end = self._again((c.MAX_REPEAT, low, high, list(parts)), at, 0, flags, lambda end: end)
            return None if end is None else then(end)
        return self._again((kind, low, high, list(parts)), at, 0, flags, then)

    def _run(self, kind: Any, about: tuple[int, int, Any], at: int, flags: int, then: Then) -> int | None:
        """Match a repeat of one character."""
        low, high, part = about
        ends = self._ends(part, at, high, flags)
        if kind is not c.MIN_REPEAT:
            ends = iter([*ends][::-1])
        for one in ends:
            if one < at + low:
                continue
            self._step()
            if (found := then(one)) is not None:
                return found
            if kind is c.POSSESSIVE_REPEAT:
                break
        return None

    def _ends(self, part: Any, at: int, high: int, flags: int) -> Iterator[int]:
        """Yield the positions after no, one, two and more of the characters that a part takes."""
        yield at
        for end in range(at, min(len(self._text), at + high)):
            if not one_matches(part, self._text[end], flags):
                return
            self._step()
            yield end + 1

    def _again(self, about: tuple[Any, int, int, list[Any]], at: int, count: int, flags: int, then: Then) -> int | None:
        """Match a repeat of several characters from its `count`-th time on."""
        kind, low, high, parts = about

        def more() -> int | None:
            if count >= high:
                return None
            return self.match(
                parts,
                at,
                flags,
                lambda end: self._again(about, end, count + 1, flags, then) if end > at or count < low else None,
            )

        if count < low:
            return more()
        if kind is c.MIN_REPEAT:
            found = then(at)
            return more() if found is None else found
        found = more()
        return then(at) if found is None else found
