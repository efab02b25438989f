"""Whether a text is really about what was said, for facts that nobody has asked for: a wrong one does harm there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..text.normalize import fold
from .candidates import FoundEntry, Term
from .ranking import rarity

MIN_SHARED_GAIN = 0.5
"""What the words that a text shares with a message must tell, in rarities of a word that only one text has."""
MIN_GAIN_SHARE = 1 / 3
"""Of what all words of the message tell: so much must be in a text that shares a single word with it."""


class RelevanceCheck:
    """For the candidates of one query."""

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
        told = {word: best for word, best in self._gains(inside).items() if best > 0}
        sum_told = sum(told.values())
        if sum_told < MIN_SHARED_GAIN * self._rarest:
            return False
        return len(told) > 1 or sum_told >= MIN_GAIN_SHARE * self._total_gain

    def _gains(self, inside: str) -> Mapping[str, float]:
        return {
            word: _max_gain([term for term in terms if term.folded in inside]) for word, terms in self._words.items()
        }


def _max_gain(terms: Sequence[Term]) -> float:
    return max((term.gain for term in terms), default=0.0)
