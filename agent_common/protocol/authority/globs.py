"""Patterns in rules: `*` matches any text including slashes, `?` one character, and everything else itself.

`git *` also matches `git` alone, because a rule for any arguments includes none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

ANY = "*"


def matches(pattern: str, text: str) -> bool:
    """Whether the text matches. The time is proportional to the length of the text for any pattern."""
    return any(_matches(form, text) for form in _forms(pattern))


def matches_any_continuation(pattern: str, start: str) -> bool:
    """Whether all texts with this prefix match."""
    form = _forms(pattern)[0]
    return form.endswith(ANY) and _matches(form, start)


def may_match_prefix(pattern: str, start: str) -> bool:
    """Whether some text with this prefix may match."""
    literal = re.split(r"[*?]", pattern, maxsplit=1)[0]
    return literal.startswith(start) or (literal != pattern and start.startswith(literal))


def covers(wide: str, narrow: str) -> bool:
    """Whether every text that matches `narrow` also matches `wide`. May return False where that is hard to decide."""
    return all(any(_covers(one, form) for one in _forms(wide)) for form in _forms(narrow))


@lru_cache(maxsize=4096)
def _forms(pattern: str) -> tuple[str, ...]:
    """Return the pattern with repeated stars merged and, if it ends in ` *`, also the pattern without that ending."""
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
    # A piece has a fixed length, so the last one can match at only one position.
    end = len(text) - len(pattern.rpartition(ANY)[2])
    return end >= found.end() and rest[-1].fullmatch(text, end) is not None


@lru_cache(maxsize=4096)
def _pieces(pattern: str) -> tuple[re.Pattern[str], ...]:
    """Return the parts of the pattern between its stars."""
    literal = ("".join("." if sign == "?" else re.escape(sign) for sign in piece) for piece in pattern.split(ANY))
    return tuple(re.compile(piece, re.DOTALL) for piece in literal)


@lru_cache(maxsize=16384)
def _covers(wide: str, narrow: str) -> bool:
    """Match the narrow pattern as a text, in which a star matches only a star, and a question mark no literal."""
    # The bits of `reached` are the possible positions in the wide pattern, so that long patterns are fast as well.
    stars, literal = _position_masks(wide)
    reached = 1 | (stars & 1) << 1
    for sign in narrow:
        stay = reached & stars  # a star matches any character
        step = 0 if sign == ANY else (reached & (literal.get("?", 0) | literal.get(sign, 0))) << 1
        reached = stay | step
        reached |= (reached & stars) << 1  # and also the empty text
    return bool(reached >> len(wide) & 1)


@lru_cache(maxsize=4096)
def _position_masks(pattern: str) -> tuple[int, Mapping[str, int]]:
    """Return the positions of the stars, and those of each other character, as bit masks."""
    places: dict[str, int] = {}
    for at, sign in enumerate(pattern):
        places[sign] = places.get(sign, 0) | 1 << at
    return places.pop(ANY, 0), places
