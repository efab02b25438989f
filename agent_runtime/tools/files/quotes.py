"""Tell what the quotes of a text do, and write new ones as a file writes those that do the same.

A model writes all of them straight. Where the file has curly ones, one that opens is another sign than one that closes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from ...workspace import ALIKE_SIGNS, SIGN_FORMS

Role = Literal["opens", "closes", "apostrophe", ""]
Token = tuple[str, Role]
"""A character and what it does, which is nothing for all but quotes."""

_QUOTES = frozenset("".join(ALIKE_SIGNS[:2]))
_BRACKETS = frozenset("([{<")
_PARTNERS: dict[Token, str] = {
    ("\u201c", "opens"): "\u201d",
    ("\u201d", "closes"): "\u201c",
    ("\u201e", "opens"): "\u201c",
    ("\u201c", "closes"): "\u201e",
    ("\u2018", "opens"): "\u2019",
}
"""The sign that closes a quote, or opens it. A single one that closes may be an apostrophe."""
_OTHER: dict[Role, Role] = {"opens": "closes", "closes": "opens", "apostrophe": "apostrophe"}


def with_roles(clusters: Sequence[str]) -> list[Token]:
    """Return the characters with what they do."""
    around = ["", *clusters, ""]
    return [
        (sign, _role(before, after) if sign in _QUOTES else "")
        for before, sign, after in zip(around, clusters, around[2:], strict=False)
    ]


def _role(before: str, after: str) -> Role:
    if before.isalnum() and after.isalnum():
        return "apostrophe"
    may_open = not before.strip() or before in _BRACKETS or (not before.isalnum() and after.isalnum())
    return "opens" if may_open and after.strip() else "closes"


def new_quotes(
    olds: Sequence[Token], there: Sequence[str], news: Sequence[Token], kept: Sequence[str | None]
) -> dict[int, str]:
    """Return the form of the quotes that a new text adds, by their places in it: that of the old text in the file.

    `there`: the old text as the file has it. `kept`: what the file has for those characters of the new text that repeat
    the old one. Quotes of other lines than those that keep one in another form may be code, and stay.
    """
    known = _known_forms(olds, there)
    return {
        index: known[news[index]]
        for passage in _passages(news)
        if any(news[index][1] and kept[index] not in (None, news[index][0]) for index in passage)
        for index in passage
        if kept[index] is None and news[index] in known
    }


def _known_forms(olds: Sequence[Token], there: Sequence[str]) -> dict[Token, str]:
    """Return the form of each kind of quote that has one form only, and whose partner has one."""
    forms: dict[Token, set[str]] = {}
    for token, form in zip(olds, there, strict=True):
        if token[1]:
            forms.setdefault(token, set()).add(form)
    found = {token: next(iter(several)) for token, several in forms.items() if len(several) == 1}
    kinds = {_kind(sign, role) for sign, role in forms}
    for (sign, role), form in list(found.items()):
        if _kind(sign, _OTHER[role]) not in kinds and (form, role) in _PARTNERS:
            found[sign, _OTHER[role]] = _PARTNERS[form, role]
    kinds = {_kind(sign, role) for sign, role in found}
    return {(sign, role): form for (sign, role), form in found.items() if _kind(sign, _OTHER[role]) in kinds}


def _kind(sign: str, role: Role) -> Token:
    return sign.translate(SIGN_FORMS), role


def _passages(news: Sequence[Token]) -> Iterator[range]:
    """Yield the places of the lines, several together where a quote is open at the end of one."""
    start = 0
    is_open = False
    for index, (sign, role) in enumerate(news):
        if role in ("opens", "closes"):
            is_open = role == "opens"
        if sign == "\n" and not is_open:
            yield range(start, index)
            start = index + 1
    yield range(start, len(news))
