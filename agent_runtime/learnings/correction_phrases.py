"""Detect corrections: messages that begin like one, in the languages of `correction_phrases.txt`.

This backs up the `learn` tool, which depends on no phrase, and would rather miss a correction than invent one;
docs/reference/learnings.md has the figures.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from pathlib import Path

DATA = Path(__file__).with_name("correction_phrases.txt")
MAX_INSPECTED = 400
"""Characters that are examined: of a message's two ends, and of the end of the answer before it."""
MIN_FOLLOWING = 4
"""Characters that must follow a bare "no", which alone teaches nothing."""
_OPENING = " .\t\r\n\"'“”„«»*_¡¿…"
_ENDS_IN_WORD = re.compile(r"[^\W\d_]$")
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]$")
"""The end of a phrase in a script that puts no space before the next word."""


def is_correction(message: str, previous_answer: str) -> bool:
    """Return whether a message corrects the answer before it, which is empty if unknown."""
    text = _normalize(message[:MAX_INSPECTED])
    if _pattern("not").match(text):
        return False
    if _pattern("wrong").match(text):
        return True
    found = _pattern("no").match(text)
    return (
        found is not None
        and len(text[found.end() :].strip()) >= MIN_FOLLOWING
        and "?" not in _normalize(previous_answer[-MAX_INSPECTED:])  # "no" to a question is an answer
        and not _normalize(message[-MAX_INSPECTED:]).endswith("?")
    )


@cache
def languages() -> dict[str, dict[str, tuple[str, ...]]]:
    """Return the phrases of the file, by language and kind."""
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for line in DATA.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            found[line.strip("[]")] = {}
        elif line and not line.startswith("#"):
            kind, _, phrases = line.partition(":")
            found[list(found)[-1]][kind] = tuple(phrase.strip() for phrase in phrases.split(" | "))
    return found


@cache
def _pattern(kind: str) -> re.Pattern[str]:
    """Return a pattern that matches the beginning of a message with any phrase of a kind."""
    phrases = {phrase for language in languages().values() for phrase in language[kind]}
    return re.compile("|".join(map(_phrase, sorted(phrases))))


def _phrase(phrase: str) -> str:
    plain = _normalize(phrase)
    if plain.endswith("~"):
        return re.escape(plain[:-1])
    if not _ENDS_IN_WORD.search(plain) or _UNSPACED.search(plain):
        return re.escape(plain)
    return re.escape(plain) + r"\b"


def _normalize(text: str) -> str:
    """Return one form for all texts that read the same."""
    folded = unicodedata.normalize("NFKC", text).casefold().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    return " ".join(folded.replace("*", "").lstrip(_OPENING).split())
