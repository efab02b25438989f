"""Lengths and offsets in UTF-16 code units, in which Telegram counts."""

from __future__ import annotations

from itertools import accumulate


def length(text: str) -> int:
    return len(text) + sum(character > "\uffff" for character in text)


def utf16_offsets(text: str) -> list[int]:
    """Return the offset of each character, and last that of the end."""
    return list(accumulate((2 if character > "\uffff" else 1 for character in text), initial=0))
