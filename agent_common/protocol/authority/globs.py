"""Patterns in rules: `*` matches any text including slashes, `?` one character, and everything else itself.

`git *` also matches `git` alone, because a rule for any arguments includes none.
"""

from __future__ import annotations

import re
from functools import lru_cache

ANY = "*"
_NO_STAR = "[^*]"
_KEPT = 1024
"""Patterns of which the preparation is kept: up to 25 KB each."""


def matches(pattern: str, text: str) -> bool:
    """Whether the text matches. The time is at most proportional to the product of their lengths."""
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


@lru_cache(maxsize=_KEPT)
def _forms(pattern: str) -> tuple[str, ...]:
    """Return the pattern with repeated stars merged and, if it ends in ` *`, also the pattern without that ending."""
    plain = re.sub(r"\*+", ANY, pattern)
    return (plain, plain[:-2]) if plain.endswith(" *") else (plain,)


def _matches(pattern: str, text: str, any_sign: str = ".") -> bool:
    """Find the pieces between the stars one after the other, each as far to the left as it can be. `any_sign`: what a
    question mark matches, as a regular expression."""
    first, *rest = _pieces(pattern, any_sign)
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


def _covers(wide: str, narrow: str) -> bool:
    """Match the narrow pattern as a text, in which a star matches only a star, and a question mark no literal."""
    return _matches(wide, narrow, _NO_STAR if "?" in wide else ".")


@lru_cache(maxsize=_KEPT)
def _pieces(pattern: str, any_sign: str) -> tuple[re.Pattern[str], ...]:
    """Return the parts of the pattern between its stars."""
    literal = ("".join(any_sign if sign == "?" else re.escape(sign) for sign in piece) for piece in pattern.split(ANY))
    return tuple(re.compile(piece, re.DOTALL) for piece in literal)
