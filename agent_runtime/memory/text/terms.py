"""Split text into index terms: words, their beginnings and pieces, and the characters of scripts without spaces.

A term is a letter for its kind, followed by folded text:

| kind | of | term |
|---|---|---|
| `w` | words and numbers | the word |
| `x` | words with accents | the word with its accents |
| `p` | words of six letters and more | their first five, which most inflections do not change |
| `g` | words of three letters and more | every four letters in a row, the ends of the word counted as one |
| `c` `b` | Chinese, Japanese | each ideograph; every two characters in a row |
| `h` `k` | Korean words | every two syllables in a row; the first syllable |
| `t` | Thai, Lao, Khmer, Burmese and others without spaces | every three characters in a row |
| `e` | pictures and symbols | the character |
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from typing import Literal

from .normalize import fold, without_umlauts

Kind = Literal["word", "number", "han", "hangul", "unspaced", "sign"]
MAX_WORD_LENGTH = 40
"""Letters of a word that are indexed: longer runs are not words."""
STEM_LENGTH = 5
PIECE_LENGTH = 4
EDGE_MARK = "0"
"""Marks the ends of a word in its pieces; no word of letters contains it."""

_HAN = (
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff\u3100-\u312f"
)
_HANGUL = "\u1100-\u11ff\u3130-\u318f\uac00-\ud7ff"
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17df\u1950-\u19df\u1a20-\u1aad\u1b00-\u1b4f\ua000-\ua48f\ua980-\ua9df"
    "\uaa60-\uaadf\U0001f200-\U0001f2ff"
)
_MARKED = "\u0900-\u0963\u0966-\u0dff\u0f71-\u0f84\u1800-\u18af\u0780-\u07ff\U00011000-\U00011fff"
"""Scripts whose vowels are marks, which `\\w` does not match."""
_SIGN = "\u2190-\u21ff\u2300-\u23ff\u2460-\u24ff\u25a0-\u27bf\u2b00-\u2bff\U0001f000-\U0001f1ff\U0001f300-\U0001faff"


@cache
def _run_pattern() -> re.Pattern[str]:
    return re.compile(
        f"(?P<han>[{_HAN}]+)|(?P<hangul>[{_HANGUL}]+)|(?P<unspaced>[{_UNSPACED}]+)|(?P<sign>[{_SIGN}])"
        f"|(?P<word>(?:[^\\W_{_HAN}{_HANGUL}{_UNSPACED}]|[{_MARKED}])+)"
    )


_PLAIN = re.compile("[a-z0-9]+")
_ACCENTED = re.compile("(?<![a-z])[a-z]*+[\u00df-\u024f\u1e00-\u1eff][a-z\u00df-\u024f\u1e00-\u1eff]*")
_VOWELLESS = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
"""Hebrew, Arabic and related scripts: words are short, and prefixes and suffixes are written with them."""
_ARTICLE = re.compile("^\u0648?(?:[\u0628\u0641\u0643]?\u0627\u0644|\u0644\u0644)(?=\\w{3})")
"""The Arabic article, and the prefixes that are written with it."""
_KANA = re.compile("[\u3040-\u30ff]")


def split_runs(text: str) -> Iterator[tuple[Kind, str]]:
    """Yield the parts of a folded text that are each of one kind of writing, with the kind."""
    if text.isascii():
        for word in _PLAIN.findall(text):
            yield ("number" if word.isdigit() else "word"), word[:MAX_WORD_LENGTH]
        return
    for found in _run_pattern().finditer(text):
        run = found[0]
        match found.lastgroup:
            case "word":
                yield ("number" if run.isdigit() else "word"), _ARTICLE.sub("", run[:MAX_WORD_LENGTH])
            case "han" | "hangul" | "unspaced" | "sign" as kind:
                yield kind, run
            case _:
                continue


def extract_terms(text: str) -> set[str]:
    """Return all terms of a text."""
    found: set[str] = set()
    for kind, run in split_runs(fold(text)):
        if kind == "word":
            found.update(word_terms(run))
        elif kind == "number":
            found.add(f"w{run}")
        elif kind == "han":
            found.update(han_terms(run))
        elif kind == "hangul":
            found.update(hangul_terms(run))
        elif kind == "unspaced":
            found.update(unspaced_terms(run))
        else:
            found.add(f"e{run}")
    if not text.isascii():
        found.update(other_spellings(text))
    return found


def word_terms(word: str) -> Iterator[str]:
    yield f"w{word}"
    if len(word) > STEM_LENGTH:
        yield f"p{word[:STEM_LENGTH]}"
    yield from word_pieces(word)


def word_pieces(word: str) -> Iterator[str]:
    size = PIECE_LENGTH if word.isascii() or not _VOWELLESS.match(word) else PIECE_LENGTH - 1
    if len(word) >= size - 1:
        edged = f"{EDGE_MARK}{word}{EDGE_MARK}"
        for at in range(len(edged) - size + 1):
            yield f"g{edged[at : at + size]}"


def han_terms(run: str) -> Iterator[str]:
    for at, char in enumerate(run):
        if not is_kana(char):
            yield f"c{char}"
        if at:
            yield f"b{run[at - 1 : at + 1]}"
    if len(run) == 1 and is_kana(run):
        yield f"c{run}"


def hangul_terms(run: str) -> Iterator[str]:
    word = run[:MAX_WORD_LENGTH]
    yield f"w{word}"
    yield f"k{word[0]}"
    for at in range(1, len(word)):
        yield f"h{word[at - 1 : at + 1]}"


def unspaced_terms(run: str) -> Iterator[str]:
    if len(run) < 3:
        yield f"t{run}"
    for at in range(len(run) - 2):
        yield f"t{run[at : at + 3]}"


def other_spellings(text: str) -> Iterator[str]:
    """Yield the terms of accented Latin words: as they are written, and with umlauts spelled out."""
    for word in _ACCENTED.findall(unicodedata.normalize("NFKC", text).casefold()):
        yield f"x{word[:MAX_WORD_LENGTH]}"
        if (spelled := without_umlauts(word)) is not None:
            yield f"w{spelled[:MAX_WORD_LENGTH]}"


def is_kana(char: str) -> bool:
    return _KANA.match(char) is not None
