"""Normalize text: remove differences of case, width, accents and other marks that a script treats as optional."""

from __future__ import annotations

import unicodedata
from functools import cache
from pathlib import Path

DATA = Path(__file__).with_name("letters.txt")
_UMLAUTS = {"ä": "ae", "ö": "oe", "ü": "ue", "å": "aa", "ø": "oe"}
"""Their spellings on keyboards without them."""
_DROPPED = (
    *((0x0300, 0x036F), (0x0483, 0x0487), (0x0591, 0x05C7), (0x0610, 0x061A), (0x064B, 0x065F), (0x0670, 0x0670)),
    *((0x06D6, 0x06DC), (0x06DF, 0x06E8), (0x06EA, 0x06ED), (0x0711, 0x0711), (0x0730, 0x074A)),
    *((0x00AD, 0x00AD), (0x034F, 0x034F), (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x2064), (0xFE00, 0xFE0F)),
    *((0xFEFF, 0xFEFF), (0xE0000, 0xE0FFF)),
)
"""Accents, vowel points, and invisible characters."""
_BREVE = "\u0306"


def fold(text: str) -> str:
    """Return the text in lower case without accents; marks that make another letter of a script are kept."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKC", text).casefold().translate(_table())


def without_umlauts(text: str) -> str | None:
    """Return the folded text with umlauts spelled out; None if it has none."""
    if text.isascii():
        return None
    lower = unicodedata.normalize("NFKC", text).casefold()
    out = "".join(_UMLAUTS.get(char, char) for char in lower)
    return out.translate(_table()) if out != lower else None


class _Table(dict[int, str]):
    """A translation table that folds each character when it is first used."""

    def __init__(self) -> None:
        super().__init__()
        for line in DATA.read_text(encoding="utf-8").splitlines():
            if line and not line.startswith("#"):
                letter, _, read_as = line.partition(" ")
                self[ord(letter)] = read_as.strip()

    def __missing__(self, code: int) -> str:
        self[code] = made = _fold_character(chr(code))
        return made


def _fold_character(char: str) -> str:
    code = ord(char)
    if any(first <= code <= last for first, last in _DROPPED):
        return ""
    if 0x30A1 <= code <= 0x30F6:  # katakana
        return chr(code - 0x60)
    digit = unicodedata.decimal(char, None)
    if digit is not None:
        return str(digit)
    base, *marks = unicodedata.normalize("NFD", char)
    if not marks or code >= 0x2000 or 0x0900 <= code < 0x1E00:
        return char  # composed characters of these ranges are letters of their own
    kept = [mark for mark in marks if mark == _BREVE and 0x0400 <= code < 0x0530]
    return unicodedata.normalize("NFC", _table()[ord(base)] + "".join(kept))


@cache
def _table() -> _Table:
    return _Table()
