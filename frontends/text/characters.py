"""Characters as a screen shows them: what is invisible, what belongs together, how wide it is, how long it counts."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from itertools import accumulate

from agent_common.line_text import escape_invisible

WORD_JOINER = "\u2060"
"""Shows nothing. After a sign that a platform would act upon, it makes text of it."""
_INVISIBLE = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
"""Controls, directions, fillers and selectors. Joiners stay: scripts and pictures are spelled with them."""
_HIDDEN = re.compile(f"{_INVISIBLE.pattern}|(?<![^\0-\x7f])[\u200c\u200d]")
"""A joiner that joins nothing hides as well."""
_UNSEEN = re.compile(f"{_INVISIBLE.pattern}|[\u200c\u200d\ufe0e\ufe0f]")
_LINE_END = re.compile("[\u2028\u2029]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_ZERO_WIDTH_JOINER = "\u200d"
_LONGEST = 64
"""Marks upon marks have no end; what is longer than this is cut in its middle."""
_EXTENDING = frozenset(("Mn", "Me", "Mc"))


def visible(text: str) -> str:
    """Return the text without what a screen does not show, and with marks in the place of halves of characters."""
    if text.isascii() and text.isprintable():
        return text
    return _SURROGATE.sub("\ufffd", _INVISIBLE.sub("", _LINE_END.sub(" ", text)))


def without_invisible(text: str) -> str:
    """Return the text without what a screen may not show, joiners too: to see what it looks like, not to be shown."""
    return text if text.isascii() and text.isprintable() else _UNSEEN.sub("", text)


def revealed(text: str) -> str:
    """Return the text with escapes in the place of what a screen does not show."""
    return _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", escape_invisible(text))


def utf16_length(text: str) -> int:
    """Return the length in UTF-16 code units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def utf16_offsets(text: str) -> list[int]:
    """Return where each character begins in UTF-16 code units, and where the last one ends."""
    return list(accumulate((2 if char > "\uffff" else 1 for char in text), initial=0))


def beginning(text: str, limit: int) -> str:
    """Return the longest beginning that takes at most so many UTF-16 code units and ends between two characters."""
    if utf16_length(text) <= limit:
        return text
    return text[: boundary_before(text, bisect_right(utf16_offsets(text[:limit]), limit) - 1)]


def boundary_before(text: str, at: int) -> int:
    """Return where to cut a text, there or a little before it."""
    return next((index for index in range(at, max(0, at - _LONGEST), -1) if is_boundary(text, index)), at)


def is_boundary(text: str, at: int) -> bool:
    """Tell whether a text may be cut before that character: an accent, a half of a flag or the next member of a family
    belongs to what stands before it."""
    if not 0 < at < len(text):
        return True
    before = text[at - 1]
    after = text[at]
    if before.isascii() and after.isascii():
        return (before, after) != ("\r", "\n")
    if _extends(after) or before == _ZERO_WIDTH_JOINER:
        return False
    if _is_flag_half(before) and _is_flag_half(after):
        return _flag_halves_before(text, at) % 2 == 0
    return not _joins_hangul(before, after)


def width(text: str) -> int:
    """Return the number of columns in a font of fixed width."""
    if text.isascii():
        return len(text)
    columns = 0
    for at, char in enumerate(text):
        joined = _extends(char) or (at > 0 and text[at - 1] == _ZERO_WIDTH_JOINER)
        columns += 0 if joined else 2 if unicodedata.east_asian_width(char) in "WF" else 1
    return columns


def _extends(char: str) -> bool:
    return (
        char in "\u200c\u200d"
        or "\U0001f3fb" <= char <= "\U0001f3ff"
        or "\U000e0020" <= char <= "\U000e007f"
        or unicodedata.category(char) in _EXTENDING
    )


def _is_flag_half(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _flag_halves_before(text: str, at: int) -> int:
    start = at
    while start and _is_flag_half(text[start - 1]):
        start -= 1
    return at - start


def _joins_hangul(before: str, after: str) -> bool:
    leading = "\u1100" <= before <= "\u115f"
    syllable = "\uac00" <= before <= "\ud7a3" or "\u1160" <= before <= "\u11ff"
    if "\u1160" <= after <= "\u11ff":
        return leading or syllable
    return leading and ("\u1100" <= after <= "\u115f" or "\uac00" <= after <= "\ud7a3")
