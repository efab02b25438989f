"""Patterns in rules: `*` is any text, slashes included, `?` one character, and everything else stands for itself.

`git *` also holds for `git` alone: whoever allows a command with any arguments means also none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

ANY = "*"


def matches(pattern: str, text: str) -> bool:
    """Whether the text fits. Takes time in proportion to the text, whatever the pattern."""
    return any(_matches(form, text) for form in _forms(pattern))


def matches_any_continuation(pattern: str, start: str) -> bool:
    """Whether every text that begins so fits."""
    form = _forms(pattern)[0]
    return form.endswith(ANY) and _matches(form, start)


def may_match_prefix(pattern: str, start: str) -> bool:
    """Whether a text that begins so may fit."""
    literal = re.split(r"[*?]", pattern, maxsplit=1)[0]
    return literal.startswith(start) or (literal != pattern and start.startswith(literal))


def covers(wide: str, narrow: str) -> bool:
    """Whether every text that fits `narrow` fits `wide` too; may say no where that is hard to tell."""
    return all(any(_covers(one, form) for one in _forms(wide)) for form in _forms(narrow))


@lru_cache(maxsize=4096)
def _forms(pattern: str) -> tuple[str, ...]:
    """A pattern without doubled stars and, where it ends in ` *`, also without that."""
    plain = re.sub(r"\*+", ANY, pattern)
    return (plain, plain[:-2]) if plain.endswith(" *") else (plain,)


def _matches(pattern: str, text: str) -> bool:
    first, *rest = _pieces(pattern)
    if not rest:
        return first.fullmatch(text) is not None
    found = first.match(text)
    for piece in rest[:-1]:
        found = found and piece.search(text, found.end())
    if found is None:
        return False
    # A piece has a fixed length, so the last one can be at one place only.
    end = len(text) - len(pattern.rpartition(ANY)[2])
    return end >= found.end() and rest[-1].fullmatch(text, end) is not None


@lru_cache(maxsize=4096)
def _pieces(pattern: str) -> tuple[re.Pattern[str], ...]:
    """What stands between the stars."""
    literal = ("".join("." if sign == "?" else re.escape(sign) for sign in piece) for piece in pattern.split(ANY))
    return tuple(re.compile(piece, re.DOTALL) for piece in literal)


@lru_cache(maxsize=16384)
def _covers(wide: str, narrow: str) -> bool:
    """The narrow pattern is read as a text in which a star fits only a star, and a question mark no letter."""
    # A bit for every place in the wide pattern at which one may stand: long patterns must not take long.
    stars, literal = _position_masks(wide)
    reached = 1 | (stars & 1) << 1
    for sign in narrow:
        stay = reached & stars  # a star takes any sign
        step = 0 if sign == ANY else (reached & (literal.get("?", 0) | literal.get(sign, 0))) << 1
        reached = stay | step
        reached |= (reached & stars) << 1  # and may stand for nothing
    return bool(reached >> len(wide) & 1)


@lru_cache(maxsize=4096)
def _position_masks(pattern: str) -> tuple[int, Mapping[str, int]]:
    """The places of the stars, and those of every other sign."""
    places: dict[str, int] = {}
    for at, sign in enumerate(pattern):
        places[sign] = places.get(sign, 0) | 1 << at
    return places.pop(ANY, 0), places
