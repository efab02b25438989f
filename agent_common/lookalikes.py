"""Letters of other scripts that look like those of a command: who approves one must see that it is another.

`curl https://g\u0456thub.com` reads as a known host, and goes elsewhere. A word that mixes such letters with those of
ASCII is no word of any language; one of look-alikes alone is a word only among others of its script.
"""

from __future__ import annotations

import re
import unicodedata

from .line_text import escape

_TWINS = frozenset("аеорсухіјѕһԁԛԝҽӏѵԍАВЕЅІЈКМНОРСТХҮѴԌԚԜονικρυαγχηωϲϳΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹͿօոսհցզյՏՕՍԼɑɡɩɪʟʀɴʏǀǃ")
"""Letters that people take for one of ASCII."""
_TWIN_BLOCKS = (
    ("\u13a0", "\u13ff"),  # Cherokee
    ("\u1d00", "\u1d2b"),  # small capitals
    ("\u2c80", "\u2cff"),  # Coptic
    ("\ua4d0", "\ua4ff"),  # Lisu
    ("\uab70", "\uabbf"),  # Cherokee
)
_SIGNS = re.compile("[\u2010\u2011\u2024\u2044\u2212\u2215\u2216\u2236\u29f8\ua4f8\ua789]")
"""Signs that people take for `-`, `.`, `/`, `\\` and `:`."""
_STYLED = re.compile(r"<(?:wide|narrow|font|compat)> ([0-9A-F]{4})")
"""The decomposition of an ASCII character in another style."""
_WORD = re.compile(r"\w+")
_BETWEEN = re.compile(r"[\s,;.!?'\"()\u2013\u2014\u00ab\u00bb-]*")
"""Spaces and punctuation between two words."""


def escape_lookalikes(text: str) -> str:
    """Return the text with escapes in the place of letters and signs that look like ASCII and are not."""
    if text.isascii():
        return text
    shown: list[str] = []
    at = 0
    words = list(_WORD.finditer(text))
    for number, word in enumerate(words):
        shown += (_signs(text[at : word.start()]), _word(text, words, number))
        at = word.end()
    return "".join((*shown, _signs(text[at:])))


def _word(text: str, words: list[re.Match[str]], number: int) -> str:
    word = words[number][0]
    if word.isascii():
        return word
    twins = [_is_twin(char) for char in word]
    is_mixed = any("a" <= char.lower() <= "z" for char in word if char.isascii())
    are_all = all(twin or char.isdigit() or char == "_" for twin, char in zip(twins, word, strict=True))
    suspect = any(twins) and (is_mixed or (are_all and not _is_in_a_sentence(text, words, number)))
    return "".join(
        escape(char) if (twin and suspect) or _is_styled(char) else char for twin, char in zip(twins, word, strict=True)
    )


def _is_in_a_sentence(text: str, words: list[re.Match[str]], number: int) -> bool:
    """Whether a neighbour of the word has a letter that can only be of another script."""
    word = words[number]
    for other in (number - 1, number + 1):
        if not 0 <= other < len(words):
            continue
        near = words[other]
        first, second = (near, word) if other < number else (word, near)
        gap = text[first.end() : second.start()]
        apart = any(char.isspace() for char in gap) and _BETWEEN.fullmatch(gap)
        if apart and any(char.isalpha() and not char.isascii() and not _is_twin(char) for char in near[0]):
            return True
    return False


def _is_twin(char: str) -> bool:
    return char in _TWINS or any(first <= char <= last for first, last in _TWIN_BLOCKS)


def _is_styled(char: str) -> bool:
    if char.isascii():
        return False
    found = _STYLED.fullmatch(unicodedata.decomposition(char))
    return found is not None and int(found[1], 16) < 0x80


def _signs(text: str) -> str:
    if text.isascii():
        return text
    text = "".join(escape(char) if _is_styled(char) else char for char in text)
    return _SIGNS.sub(lambda found: escape(found[0]), text)
