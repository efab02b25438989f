"""Judge whether a fact is really about a message, for facts that are shown unasked: there a wrong one does harm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..text.normalize import fold
from .candidates import FoundEntry, Term
from .ranking import rarity

MIN_SHARED_GAIN = 0.5
"""Minimum gain of the words that a text shares with a message, in units of the rarity of a word in a single text."""
MIN_GAIN_SHARE = 1 / 3
"""Minimum share of the gain of all words of the message, for a text that shares a single word with it."""


class RelevanceCheck:
    """Judges the candidates of one query."""

    def __init__(self, found: FoundEntry) -> None:
        self._rarest = rarity(found.entries, 1)
        self._words: dict[str, list[Term]] = {}
        for term in found.terms:
            if term.query_term.significant:
                self._words.setdefault(term.query_term.word, []).append(term)
        asked = {wanted.word for wanted in found.query if wanted.significant}
        self._total_gain = sum(_max_gain(self._words.get(word, ())) or self._rarest for word in asked)

    def is_about(self, text: str) -> bool:
        inside = fold(text)
        shared = {word: best for word, best in self._gains(inside).items() if best > 0}
        gain = sum(shared.values())
        if gain < MIN_SHARED_GAIN * self._rarest:
            return False
        return len(shared) > 1 or gain >= MIN_GAIN_SHARE * self._total_gain

    def _gains(self, inside: str) -> Mapping[str, float]:
        return {
            word: _max_gain([term for term in terms if term.folded in inside]) for word, terms in self._words.items()
        }


def _max_gain(terms: Sequence[Term]) -> float:
    return max((term.gain for term in terms), default=0.0)
