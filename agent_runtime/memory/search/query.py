"""What a query looks for: its terms, each with what it weighs against the others.

Names such as `w2290`, and words in straight quotes, are sought as they are: `w2291` is another thing and no slip.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from ..text.normalize import folded
from ..text.stopwords import common
from ..text.terms import EDGE, STEM, han_terms, hangul_terms, other_spellings, pieces, runs, unspaced_terms

LONGEST = 2000
"""Characters of a query that are looked at."""
MOST_TERMS = 400
EXACT, STEMMED, ACCENTED = 1.0, 0.5, 0.3
PIECES = 1.2
"""All pieces of a word together."""
SOUGHT, IN_A_NAME = 12.0, 0.5
"""A word that is sought as it is: more than four others; and what is a word of its own in it. All its pieces together
weigh as a common word."""
WEAK = 0.2
"""What is left of the weight of a common word. It counts for all where there is no other."""
_HIRAGANA = re.compile("[\u3041-\u309f]")
_QUOTED = re.compile(r'(?<!\S)"(\S[^"\n]{0,200})"(?!\w)')
_IN_A_NAME = re.compile(r"[^\W\d_]{3,}|\d{3,}")


@dataclass(frozen=True, slots=True)
class QueryTerms:
    """A term of a query."""

    term: str
    weight: float
    word: str
    """The word, or the signs, that it stands for."""
    telling: bool = True
    """Its being there says something about a text; that of a piece or of a common word says little."""
    sought: bool = False
    """It stands for a word that is sought as it is."""

    def is_in(self, inside: str, words: AbstractSet[str]) -> bool:
        """Whether a folded text with these words has it. The beginning of a name may be given for all of it."""
        return self.signs in (words if self.term[0] == "w" and not self.sought else inside)

    @property
    def signs(self) -> str:
        """What a folded text holds that has the term."""
        return self.term[1:].strip(EDGE) if self.term[0] == "g" else self.term[1:]


def wanted(query: str) -> list[QueryTerms]:
    """The terms of a query, each once and with the most that it weighs."""
    text = query[:LONGEST]
    found: dict[str, QueryTerms] = {}
    for one in (*_terms(text), *_accented(text)):
        known = found.get(one.term)
        if known is None or known.weight < one.weight:
            found[one.term] = one
    return list(found.values())[:MOST_TERMS]


def _terms(text: str) -> Iterator[QueryTerms]:
    parts = list(runs(folded(text)))
    weak = _weak(parts)
    quoted = {run for found in _QUOTED.finditer(text) for _, run in runs(folded(found[1]))}
    for kind, run in dict.fromkeys(parts):
        if kind == "word" and (run in quoted or _is_name(run)):
            yield from _sought(run)
        elif kind == "word":
            yield from _word(run, weak)
        elif kind == "number":
            yield QueryTerms(f"w{run}", EXACT, run)
        elif kind == "han":
            yield from _han(run, weak)
        elif kind == "hangul":
            yield from _hangul(run, weak)
        elif kind == "unspaced":
            yield from (QueryTerms(term, 0.5, term[1:]) for term in unspaced_terms(run))
        else:
            yield QueryTerms(f"e{run}", EXACT, run)


def _weak(parts: Sequence[tuple[str, str]]) -> set[str]:
    words = [run for kind, run in parts if kind in ("word", "hangul")]
    signs = [run[at : at + size] for kind, run in parts if kind == "han" for size in (1, 2) for at in range(len(run))]
    return common(words + signs)


def _word(word: str, weak: set[str]) -> Iterator[QueryTerms]:
    if word in weak:
        yield QueryTerms(f"w{word}", WEAK, word, telling=False)
        return
    yield QueryTerms(f"w{word}", EXACT, word)
    if len(word) >= STEM:
        yield QueryTerms(f"p{word[:STEM]}", STEMMED, word)
        yield QueryTerms(f"w{word[:STEM]}", STEMMED, word)
    found = list(pieces(word))
    for piece in found:
        yield QueryTerms(piece, PIECES / len(found), word, telling=False)


def _is_name(word: str) -> bool:
    """Whether it is made of letters and digits."""
    return any(map(str.isdigit, word)) and any(map(str.isalpha, word))


def _sought(word: str) -> Iterator[QueryTerms]:
    yield QueryTerms(f"w{word}", SOUGHT, word, sought=True)
    parts = [part for part in _IN_A_NAME.findall(word) if part != word]
    yield from (QueryTerms(f"w{part}", IN_A_NAME, part) for part in parts)
    found = list(pieces(word))
    yield from (QueryTerms(piece, WEAK / len(found), word, telling=False) for piece in found)


def _han(run: str, weak: set[str]) -> Iterator[QueryTerms]:
    for term in han_terms(run):
        signs = term[1:]
        hiragana = sum(1 for sign in signs if _HIRAGANA.match(sign))
        dull = signs in weak or any(sign in weak for sign in signs)
        weight = (0.35 if len(signs) == 1 else EXACT) * (1.0, 0.4, 0.15)[hiragana] * (0.2 if dull else 1.0)
        yield QueryTerms(term, weight, signs, telling=len(signs) == 2 and not dull and hiragana < 2)


def _hangul(word: str, weak: set[str]) -> Iterator[QueryTerms]:
    dull = word in weak
    for term in hangul_terms(word):
        weight = {"w": EXACT, "h": 0.7, "k": 0.3}[term[0]] * (WEAK if dull else 1.0)
        yield QueryTerms(term, weight, word, telling=term[0] != "k" and not dull)


def _accented(text: str) -> Iterator[QueryTerms]:
    if not text.isascii():
        for term in other_spellings(text):
            yield QueryTerms(term, ACCENTED if term[0] == "x" else EXACT, term[1:])
