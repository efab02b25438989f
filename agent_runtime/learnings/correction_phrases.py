"""Detects corrections: messages that begin like one, in the languages of `correction_phrases.txt`.

A help beside the `learn` tool, which hangs on no phrase. It would rather miss a correction than make one up.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import cache
from pathlib import Path

DATA = Path(__file__).with_name("correction_phrases.txt")
MAX_INSPECTED = 400
"""Characters of a message, and of the end of what it answers."""
MIN_FOLLOWING = 4
"""Characters that must follow a mere no: alone it teaches nothing."""
_OPENING = " .\t\r\n\"'“”„«»*_¡¿…"
_ENDS_IN_WORD = re.compile(r"[^\W\d_]$")
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]$")
"""Scripts in which a phrase may be followed by the next word at once."""


@dataclass(frozen=True, slots=True)
class CorrectionPhrases:
    """All phrases of one kind, as patterns for the beginning of a message."""

    wrong: re.Pattern[str]
    no: re.Pattern[str]
    neither: re.Pattern[str]


def is_correction(message: str, previous_answer: str) -> bool:
    """Whether a message corrects the answer before it; that may be empty when nobody knows it."""
    text, signs = _normalize_start(message), _phrases()
    if signs.neither.match(text):
        return False
    if signs.wrong.match(text):
        return True
    found = signs.no.match(text)
    return (
        found is not None
        and len(text[found.end() :].strip()) >= MIN_FOLLOWING
        and "?" not in _normalize_start(previous_answer[-MAX_INSPECTED:])  # then it is an answer
        and not _normalize_start(message[-MAX_INSPECTED:]).endswith("?")
    )


def may_be_correction(message: str) -> bool:
    """Whether it is worth knowing what the message answers."""
    return is_correction(message, "")


@cache
def languages() -> dict[str, dict[str, tuple[str, ...]]]:
    """The phrases by language and kind, as they stand in the file."""
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for line in DATA.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            found[line.strip("[]")] = {}
        elif line and not line.startswith("#"):
            kind, _, phrases = line.partition(":")
            found[list(found)[-1]][kind] = tuple(phrase.strip() for phrase in phrases.split(" | "))
    return found


@cache
def _phrases() -> CorrectionPhrases:
    return CorrectionPhrases(*map(_pattern, ("wrong", "no", "not")))


def _pattern(kind: str) -> re.Pattern[str]:
    phrases = {phrase for language in languages().values() for phrase in language[kind]}
    return re.compile("|".join(map(_phrase, sorted(phrases))))


def _phrase(phrase: str) -> str:
    plain = _normalize_start(phrase)
    if plain.endswith("~"):
        return re.escape(plain[:-1])
    if not _ENDS_IN_WORD.search(plain) or _UNSPACED.search(plain):
        return re.escape(plain)
    return re.escape(plain) + r"\b"


def _normalize_start(text: str) -> str:
    """The beginning of a text, with one form for all that reads the same."""
    folded = (
        unicodedata.normalize("NFKC", text[:MAX_INSPECTED]).casefold().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    )
    folded = folded.replace("*", "")
    return " ".join(folded.lstrip(_OPENING).split())
