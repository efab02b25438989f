"""The forms of a text that read the same: other quotes, blanks, dashes, line ends, and signs composed or in parts."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cache
from itertools import chain

from ...workspace import ALIKE_SIGNS

MAX_CLUSTER = 32
"""Signs of a character with its marks, which are sorted in the square of their number."""
MAX_PATTERN = 1000
"""Characters of a regular expression of which other forms are looked for."""
_CLASSES = {sign: f"[{re.escape(group)}]" for group in ALIKE_SIGNS for sign in group}
_HANGUL = re.compile("[\u1100-\u1112][\u1161-\u1175][\u11a8-\u11c2]?")
"""A syllable in its letters, none of which counts as a mark."""
_COMPOSED = (range(0xC0, 0x3400), range(0xF900, 0xFFFF), range(0x2F800, 0x2FA20))
"""Where Unicode has characters that stand for others, but for syllables of Hangul."""
LINE_END = r"(?:\r\n|\n|\r)"
"""A pattern for what ends a line."""


def clusters_of(text: str) -> list[str]:
    """Split the text into characters with the marks that combine with them; `...` is one, too."""
    found: list[str] = []
    for sign in text:
        is_mark = unicodedata.combining(sign) and found and len(found[-1]) < MAX_CLUSTER
        if is_mark or (found and _HANGUL.fullmatch(found[-1] + sign)):
            found[-1] += sign
        elif sign == "." and found[-2:] == [".", "."]:
            found[-2:] = ["..."]
        else:
            found.append(sign)
    return found


def pattern_of(clusters: Sequence[str]) -> str:
    """Return a pattern for the text in all its forms. It tries each place of a file once: no part of it repeats."""
    return "".join(map(form_of, clusters))


def form_of(cluster: str) -> str:
    """Return a pattern for one character, with its marks, in all its forms."""
    if cluster == "\n":
        return LINE_END
    if cluster in ("...", "\u2026"):
        return r"(?:\.\.\.|\u2026)"
    if cluster in _CLASSES:
        return _CLASSES[cluster]
    apart = unicodedata.normalize("NFD", cluster)
    forms = dict.fromkeys((cluster, unicodedata.normalize("NFC", cluster), apart, *_single_signs().get(apart, ())))
    return re.escape(cluster) if len(forms) == 1 else f"(?:{'|'.join(map(re.escape, forms))})"


def forms_in(clusters: Sequence[str], text: str) -> list[str]:
    """Return the characters as a text that reads the same has them."""
    found: list[str] = []
    at = 0
    for cluster in clusters:
        match = re.compile(form_of(cluster)).match(text, at)
        found.append(match[0] if match else "")
        at += len(found[-1])
    return found


def forms_in_pattern(pattern: str) -> str:
    """Return a regular expression that also finds the other forms of what is not ASCII in it. Choices of characters
    stay as they are, and so does a pattern that is very long."""
    if pattern.isascii() or len(pattern) > MAX_PATTERN:
        return pattern
    found: list[str] = []
    in_choice = escaped = False
    for sign in unicodedata.normalize("NFC", pattern):
        found.append(sign if sign.isascii() or in_choice or escaped else form_of(sign))
        if not escaped and sign in "[]":
            in_choice = sign == "["
        escaped = sign == "\\" and not escaped
    return "".join(found)


@cache
def _single_signs() -> dict[str, list[str]]:
    """Return the single characters that Unicode has for a text, by its decomposition: some more than one, of which
    composition gives none or another, such as the Ohm sign for Omega."""
    found: dict[str, list[str]] = {}
    for sign in map(chr, chain.from_iterable(_COMPOSED)):
        if (apart := unicodedata.normalize("NFD", sign)) != sign:
            found.setdefault(apart, []).append(sign)
    return found
