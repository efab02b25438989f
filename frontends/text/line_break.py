"""Where a line that is too long for one message is cut: after a sentence, after a word, between two characters."""

from __future__ import annotations

import re
from bisect import bisect_left

from .characters import boundary_before

_SENTENCE = re.compile(r"[.!?…][\"'\u201d\u2019)\]]*\s+(?=[^\s#>=~`|+*-])|[\u3002\uff01\uff1f]")
_WORD = re.compile(r"\s+(?=[^\s#>=~`|+*-])|[\uff0c\u3001\uff1b\uff1a]")
"""Chinese and Japanese have signs of their own and no spaces. No message begins with what would make a list of it."""
_WHOLE = re.compile(
    r"`+[^`\n]*`+|!?\[[^\[\]\n]*\]\([^()\s]*(?:\([^()\s]*\)[^()\s]*)*\)|(?<!\]\()https?://\S+|<[^<>\s]+>"
    r"|\*\*[^*\n]+\*\*|__[^_\n]+__|~~[^~\n]+~~"
)
"""Code, links, addresses and emphasis."""
_BEGUN = re.compile(r"(?:`+[^`\n]*|\[[^\[\]\n]*(?:\](?:\([^()\s]*)?)?|https?://\S*|(?:\*\*|~~|__)[^*_~\n]*)$")
_BEGUN_LENGTH = 300
"""What has begun in so many characters before the end may become a link: nobody knows before it has arrived."""


def break_line(line: str, first: int, last: int) -> int:
    """Return where to cut a line, at `first` at the earliest and at `last`, or before it if there is no boundary. It
    depends upon nothing behind `last`: the rest of the line may not have arrived yet."""
    known = line[: last + 1]
    whole = _whole_parts(known)
    for boundary in (_SENTENCE, _WORD):
        boundaries = [
            match.end() for match in boundary.finditer(known, max(0, first - 1)) if first <= match.end() <= last
        ]
        allowed = [at for at in boundaries if not _is_inside(at, whole)]
        if allowed:
            return allowed[-1]
    starts = [start for start, _ in whole if first <= start <= last and start > 0]
    if starts and _is_inside(last, whole):
        return starts[-1]
    return max(first, boundary_before(known, last))


def _whole_parts(line: str) -> list[tuple[int, int]]:
    parts = [match.span() for match in _WHOLE.finditer(line)]
    rest = max(len(line) - _BEGUN_LENGTH, parts[-1][1] if parts else 0)
    begun = _BEGUN.search(line, rest)
    if begun:
        parts.append((begun.start(), len(line) + 1))
    return parts


def _is_inside(at: int, parts: list[tuple[int, int]]) -> bool:
    nearest = bisect_left(parts, (at, 0)) - 1
    return nearest >= 0 and at < parts[nearest][1]
