"""Try a pattern with texts that are made from it, and see how its steps grow with them."""

from __future__ import annotations

import re
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

from .matcher import MANY, Matcher, TooManySteps, c, one_matches, parsed

_SIZES = (12, 24, 36)
_SUPERLINEAR = 100
"""Steps by which the second half of a text costs more than the first; none for a linear pattern."""
_USUAL = (" ", "a", "0", "\n", "/", "-", "\t")
_ENDS = ("\x00", "")
_DEPTH = 40_000


def grows(pattern: str | bytes, flags: int = 0, how: str = "sub") -> str | None:
    """Return the beginning of a text on which the pattern's cost grows faster than its length, or None. `how` is the
    method by which it is used: `match`, `fullmatch`, `search`, or any other one, which looks for all matches."""
    text = pattern.decode("latin-1") if isinstance(pattern, bytes) else pattern
    if isinstance(pattern, str):
        flags &= ~re.UNICODE
    parts = parsed(text, flags)
    flags |= re.compile(text, flags).flags & ~re.UNICODE
    if not any(True for _ in _endless(parts)):
        return None
    if how in ("match", "fullmatch"):
        parts = [(c.AT, c.AT_BEGINNING_STRING), *parts]
    if how == "fullmatch":
        parts = [*parts, (c.AT, c.AT_END_STRING)]
    with _deep_recursion():
        for prefix, pump in dict.fromkeys(attack for one in _ways(parts) for attack in _attacks(one, flags)):
            if any(_is_costly(parts, flags, how, prefix, pump, end) for end in _ENDS):
                return prefix + pump
    return None


@contextmanager
def _deep_recursion() -> Generator[None]:
    """Let the matcher recurse for each character, and put the limit back: other code counts on it."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _DEPTH))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def _is_costly(parts: list[Any], flags: int, how: str, prefix: str, pump: str, end: str) -> bool:
    try:
        first, second, third = (_steps(parts, flags, how, prefix + pump * size + end) for size in _SIZES)
    except TooManySteps:
        return True
    return third - 2 * second + first > _SUPERLINEAR


def _steps(parts: list[Any], flags: int, how: str, text: str) -> int:
    matcher = Matcher(text)
    matcher.scan(parts, flags, all_matches=how != "search")
    return matcher.steps


def _ways(parts: list[Any]) -> Iterator[list[Any]]:
    """Yield the parts, and where they have alternatives on the outermost level, the parts with each one alone."""
    yield parts
    for at, (kind, about) in enumerate(parts):
        if kind is c.BRANCH:
            for one in about[1]:
                yield [*parts[:at], *one, *parts[at + 1 :]]


def _endless(parts: Any) -> Iterator[Any]:
    """Yield the repeats without an end, at any depth."""
    for kind, about in parts:
        if kind in (c.MAX_REPEAT, c.MIN_REPEAT, c.POSSESSIVE_REPEAT):
            if about[1] >= MANY:
                yield about[2]
            yield from _endless(about[2])
        else:
            for inner in _inner(kind, about):
                yield from _endless(inner)


def _inner(kind: Any, about: Any) -> list[Any]:
    if kind is c.BRANCH:
        return list(about[1])
    if kind is c.SUBPATTERN:
        return [about[3]]
    if kind is c.ATOMIC_GROUP:
        return [about]
    if kind in (c.ASSERT, c.ASSERT_NOT):
        return [about[1]]
    return [one for one in about[1:] if one] if kind is c.GROUPREF_EXISTS else []


def _attacks(parts: list[Any], flags: int) -> Iterator[tuple[str, str]]:
    """Yield beginnings of texts, each with what is repeated after it."""
    characters = dict.fromkeys((*_USUAL, *_literals(parts)))
    bodies = list(_endless(parts))
    single = [body[0] for body in bodies if len(body) == 1 and body[0][0] in (c.LITERAL, c.NOT_LITERAL, c.ANY, c.IN)]
    pumps = [one for one in characters if any(one_matches(body, one, flags) for body in single)][:8]
    samples = [_sample(body, one, flags) for body in bodies for one in (" ", "a", "\n")]
    samples += [_sample(one, of, flags) for body in bodies for one in _pairs(body) for of in characters]
    whole = [_sample(parts, one, flags) for one in (" ", "\n")]
    before = _prefixes(parts, flags)
    for pump in dict.fromkeys((*pumps, *samples, *whole, *before)):
        for prefix in ("", *before):
            if pump:
                yield prefix, pump


def _pairs(body: Any) -> Iterator[list[Any]]:
    """Yield the alternatives of a repeat that take two characters, such as an escape."""
    for kind, about in body:
        if kind is c.BRANCH:
            yield from (list(one) for one in about[1] if len(one) == 2)
        elif kind in (c.SUBPATTERN, c.ATOMIC_GROUP):
            yield from _pairs(_inner(kind, about)[0])


def _prefixes(parts: list[Any], flags: int) -> list[str]:
    """Return samples of what stands before each endless repeat of the outermost level."""
    ends = [at for at, part in enumerate(parts) if any(True for _ in _endless([part]))]
    found = [_sample(parts[:at], one, flags) for at in ends if at for one in ("a", "\n")]
    return [one for one in dict.fromkeys(found) if one][:6]


def _literals(parts: Any) -> Iterator[str]:
    for kind, about in parts:
        if kind is c.LITERAL:
            yield chr(about)
        elif kind is c.IN:
            yield from (chr(member[1]) for member in about if member[0] is c.LITERAL)
        elif kind in (c.MAX_REPEAT, c.MIN_REPEAT, c.POSSESSIVE_REPEAT):
            yield from _literals(about[2])
        else:
            for inner in _inner(kind, about):
                yield from _literals(inner)


def _sample(parts: Any, preferred: str, flags: int) -> str:
    """Return a short text that the parts match, where they can be told: of the preferred character if they take it."""
    made: list[str] = []
    for kind, about in parts:
        if kind is c.LITERAL:
            made.append(chr(about))
        elif kind in (c.NOT_LITERAL, c.ANY, c.IN):
            usual = (preferred, *_USUAL, *_literals([(kind, about)]), *map(chr, range(33, 127)))
            made.append(next((one for one in usual if one_matches((kind, about), one, flags)), ""))
        elif kind in (c.MAX_REPEAT, c.MIN_REPEAT, c.POSSESSIVE_REPEAT):
            made.append(_sample(about[2], preferred, flags) * min(max(about[0], 1), 8))
        elif kind in (c.BRANCH, c.SUBPATTERN, c.ATOMIC_GROUP):
            inner = _inner(kind, about)
            made.append(_sample(inner[0], preferred, flags) if inner else "")
    return "".join(made)
