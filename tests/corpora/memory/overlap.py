"""How much of a question stands in its fact: paraphrases are no copies, and no riddles either."""

from __future__ import annotations

import re
import statistics
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from .corpus import HERE, Question

UNSPACED = frozenset({"zh", "ja"})
_WORD = re.compile(r"\w+")
_PIECE = re.compile(r"[a-z0-9]+|[\u30a0-\u30ff]+|\w")
_KANA = re.compile(r"[\u3040-\u309f]")
_COMMON = frozenset((HERE / "common_words.txt").read_text(encoding="utf-8").split())
"""Question words and their like in the languages with spaces, as `_folded` leaves them."""
_ACCENTS = frozenset("\u0300\u0301\u0302\u0303\u0304\u0308\u030a\u0327")
"""Those that people leave out. The breve of Russian and the voicing marks of Japanese make other letters."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """Of one question with its fact. Shares are of its content words: words of four letters and more that are not among
    the commonest, and in Chinese and Japanese pairs of neighbouring characters without hiragana.
    """

    same: float
    """Share that stands in the fact, case and accents aside."""
    akin: float
    """Share of which only another form stands there: the first four letters and over half of the word are equal."""
    phrase: int
    """Longest phrase that stands in both, in words; in Chinese and Japanese in characters, where a word in katakana,
    Latin letters or digits counts as two.
    """


def overlap(lang: str, question: str, fact: str) -> Overlap:
    asked, told = content(lang, question), set(content(lang, fact))
    same = sum(word in told for word in asked)
    akin = sum(word not in told and any(_akin(word, other) for other in told) for word in asked)
    whole = len(asked) or 1
    return Overlap(same / whole, akin / whole, _phrase(lang, pieces(lang, question), pieces(lang, fact)))


def content(lang: str, text: str) -> list[str]:
    """The content words of a text, as described above."""
    if lang in UNSPACED:
        return list(_pairs(pieces(lang, text)))
    folded = [word for word in _WORD.findall(_folded(text)) if word not in _COMMON]
    return [word for word in folded if len(word) > 3 or word.isdigit()]


def pieces(lang: str, text: str) -> list[str]:
    """The words of a text; in languages without spaces its characters, and whole words of katakana or Latin letters."""
    return (_PIECE if lang in UNSPACED else _WORD).findall(_folded(text))


def report(questions: Iterable[Question], texts: Mapping[str, str]) -> str:
    """A Markdown table, one line per language; `texts` are the facts by id."""
    by: dict[str, list[Overlap]] = {}
    for one in questions:
        by.setdefault(one.lang, []).append(overlap(one.lang, one.text, texts[one.fact]))
    head = "| language | questions | same form | other form | not there | phrase, mean | phrase, longest |"
    return "\n".join([head, "|---" * 7 + "|", *(_line(lang, found) for lang, found in by.items())])


def _line(lang: str, found: Sequence[Overlap]) -> str:
    same, akin = (statistics.fmean(values) for values in ([o.same for o in found], [o.akin for o in found]))
    phrases = [one.phrase for one in found]
    shares = " | ".join(f"{share:.0%}" for share in (same, akin, 1 - same - akin))
    return f"| {lang} | {len(found)} | {shares} | {statistics.fmean(phrases):.1f} | {max(phrases)} |"


def _folded(text: str) -> str:
    letters = unicodedata.normalize("NFKD", text.casefold())
    return unicodedata.normalize("NFC", "".join(letter for letter in letters if letter not in _ACCENTS))


def _akin(word: str, other: str) -> bool:
    alike = next((i for i, (a, b) in enumerate(zip(word, other, strict=False)) if a != b), min(len(word), len(other)))
    return alike >= 4 and alike > len(word) / 2


def _pairs(units: Sequence[str]) -> Iterator[str]:
    for first, second in pairwise(units):
        if not _KANA.search(first + second):
            yield first + second
    yield from (unit for unit in units if len(unit) > 1)


def _phrase(lang: str, asked: Sequence[str], told: Sequence[str]) -> int:
    """Length of the longest run of pieces in both."""
    longest, row = 0, [0] * (len(told) + 1)
    for piece in asked:
        weight = 2 if lang in UNSPACED and len(piece) > 1 else 1
        row = [0, *(row[at] + weight if piece == other else 0 for at, other in enumerate(told))]
        longest = max(longest, *row)
    return longest
