r"""Read a regular expression as other programs do: in GNU grep's `\|` is a choice, and `\(` and `\)` are a group."""

from __future__ import annotations

import re
from collections.abc import Sequence

_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^]\\])*\]|.", re.DOTALL)
_CHOICE = {r"\|": "|"}
_GROUP = {r"\(": "(", r"\)": ")"}
_NOTHING_BEFORE = frozenset(("", "|", "(", "^"))
_NOTHING_AFTER = frozenset(("", "|", ")", "$", "*", "+", "?", "{"))


def escaped_choice(pattern: str) -> str | None:
    """Return the pattern in which escaped choices are choices, and their escaped groups groups. None if there are none,
    or if one of the alternatives would be nothing, which all lines have."""
    tokens: list[str] = _TOKEN.findall(pattern)
    meaning = {**_CHOICE, **_GROUP} if _has_choice_in_group(tokens) else _CHOICE
    read = [meaning.get(token, token) for token in tokens]
    choices = [index for index, token in enumerate(tokens) if token in _CHOICE]
    around = ["", *read, ""]
    if any(around[index] in _NOTHING_BEFORE or around[index + 2] in _NOTHING_AFTER for index in choices):
        return None
    return "".join(read) if choices else None


def _has_choice_in_group(tokens: Sequence[str]) -> bool:
    """Tell whether a choice is in an escaped group, all of which are complete."""
    depth = 0
    found = False
    for one in tokens:
        depth += {r"\(": 1, r"\)": -1}.get(one, 0)
        if depth < 0:
            return False
        found = found or (depth > 0 and one in _CHOICE)
    return found and depth == 0
