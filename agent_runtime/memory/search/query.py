"""Parse a query into terms, each with its weight.

Names such as `w2290` and words in straight quotes are searched verbatim: `w2291` is another name, not a typing error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from ..text.normalize import fold
from ..text.stopwords import common_words
from ..text.terms import (
    EDGE_MARK,
    STEM_LENGTH,
    han_terms,
    hangul_terms,
    other_spellings,
    split_runs,
    unspaced_terms,
    word_pieces,
)

MAX_QUERY_LENGTH = 2000
"""Characters of a query that are used."""
MAX_TERMS = 400
EXACT_WEIGHT = 1.0
STEM_WEIGHT = 0.5
ACCENT_WEIGHT = 0.3
PIECES_WEIGHT = 1.2
"""The weight of all pieces of a word together."""
VERBATIM_WEIGHT = 12.0
NAME_PART_WEIGHT = 0.5
"""The weight of a verbatim word, more than four others have, and of each word within it. All its pieces together weigh
as much as a common word."""
WEAK_FACTOR = 0.2
"""Factor for a common word. In a query of common words only, all are reduced alike."""
_HIRAGANA = re.compile("[\u3041-\u309f]")
_QUOTED = re.compile(r'(?<!\S)"(\S[^"\n]{0,200})"(?!\w)')
_NAME_PART = re.compile(r"[^\W\d_]{3,}|\d{3,}")


@dataclass(frozen=True, slots=True)
class QueryTerms:
    """A term of a query."""

    term: str
    weight: float
    word: str
    """The word or characters that it was made from."""
    significant: bool = True
    """Whether a text that has it is likely to match; False for pieces of words and common words."""
    verbatim: bool = False
    """Whether its word is searched verbatim."""

    def is_in(self, inside: str, words: AbstractSet[str]) -> bool:
        """Return whether a folded text with these words has the term. The beginning of a name matches the name."""
        return self.folded in (words if self.term[0] == "w" and not self.verbatim else inside)

    @property
    def folded(self) -> str:
        """The substring of a folded text by which the text has the term."""
        return self.term[1:].strip(EDGE_MARK) if self.term[0] == "g" else self.term[1:]


def parse_query(query: str) -> list[QueryTerms]:
    """Return the terms of a query, each once, with its largest weight."""
    text = query[:MAX_QUERY_LENGTH]
    found: dict[str, QueryTerms] = {}
    for one in (*_terms(text), *_accented_terms(text)):
        known = found.get(one.term)
        if known is None or known.weight < one.weight:
            found[one.term] = one
    return list(found.values())[:MAX_TERMS]


def _terms(text: str) -> Iterator[QueryTerms]:
    parts = list(split_runs(fold(text)))
    weak = _weak_words(parts)
    quoted = {run for found in _QUOTED.finditer(text) for _, run in split_runs(fold(found[1]))}
    for kind, run in dict.fromkeys(parts):
        if kind == "word" and (run in quoted or _is_name(run)):
            yield from _verbatim_terms(run)
        elif kind == "word":
            yield from _word_terms(run, weak)
        elif kind == "number":
            yield QueryTerms(f"w{run}", EXACT_WEIGHT, run)
        elif kind == "han":
            yield from _han_query_terms(run, weak)
        elif kind == "hangul":
            yield from _hangul_query_terms(run, weak)
        elif kind == "unspaced":
            yield from (QueryTerms(term, 0.5, term[1:]) for term in unspaced_terms(run))
        else:
            yield QueryTerms(f"e{run}", EXACT_WEIGHT, run)


def _weak_words(parts: Sequence[tuple[str, str]]) -> set[str]:
    words = [run for kind, run in parts if kind in ("word", "hangul")]
    chars = [run[at : at + size] for kind, run in parts if kind == "han" for size in (1, 2) for at in range(len(run))]
    return common_words(words + chars)


def _word_terms(word: str, weak: set[str]) -> Iterator[QueryTerms]:
    if word in weak:
        yield QueryTerms(f"w{word}", WEAK_FACTOR, word, significant=False)
        return
    yield QueryTerms(f"w{word}", EXACT_WEIGHT, word)
    if len(word) >= STEM_LENGTH:
        yield QueryTerms(f"p{word[:STEM_LENGTH]}", STEM_WEIGHT, word)
        yield QueryTerms(f"w{word[:STEM_LENGTH]}", STEM_WEIGHT, word)
    found = list(word_pieces(word))
    for piece in found:
        yield QueryTerms(piece, PIECES_WEIGHT / len(found), word, significant=False)


def _is_name(word: str) -> bool:
    """Return whether the word has both letters and digits."""
    return any(map(str.isdigit, word)) and any(map(str.isalpha, word))


def _verbatim_terms(word: str) -> Iterator[QueryTerms]:
    yield QueryTerms(f"w{word}", VERBATIM_WEIGHT, word, verbatim=True)
    parts = [part for part in _NAME_PART.findall(word) if part != word]
    yield from (QueryTerms(f"w{part}", NAME_PART_WEIGHT, part) for part in parts)
    found = list(word_pieces(word))
    yield from (QueryTerms(piece, WEAK_FACTOR / len(found), word, significant=False) for piece in found)


def _han_query_terms(run: str, weak: set[str]) -> Iterator[QueryTerms]:
    for term in han_terms(run):
        chars = term[1:]
        hiragana = sum(1 for char in chars if _HIRAGANA.match(char))
        dull = chars in weak or any(char in weak for char in chars)
        weight = (0.35 if len(chars) == 1 else EXACT_WEIGHT) * (1.0, 0.4, 0.15)[hiragana] * (0.2 if dull else 1.0)
        yield QueryTerms(term, weight, chars, significant=len(chars) == 2 and not dull and hiragana < 2)


def _hangul_query_terms(word: str, weak: set[str]) -> Iterator[QueryTerms]:
    dull = word in weak
    for term in hangul_terms(word):
        weight = {"w": EXACT_WEIGHT, "h": 0.7, "k": 0.3}[term[0]] * (WEAK_FACTOR if dull else 1.0)
        yield QueryTerms(term, weight, word, significant=term[0] != "k" and not dull)


def _accented_terms(text: str) -> Iterator[QueryTerms]:
    if not text.isascii():
        for term in other_spellings(text):
            yield QueryTerms(term, ACCENT_WEIGHT if term[0] == "x" else EXACT_WEIGHT, term[1:])
