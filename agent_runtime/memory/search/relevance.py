"""Whether a text is really about what was said, for facts that nobody has asked for: a wrong one does harm there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..text.normalize import folded
from .candidates import FoundEntry, Term
from .ranking import rarity

ENOUGH = 0.5
"""What the words that a text shares with a message must tell, in rarities of a word that only one text has."""
SHARE = 1 / 3
"""Of what all words of the message tell: so much must be in a text that shares a single word with it."""


class RelevanceCheck:
    """For the candidates of one query."""

    def __init__(self, found: FoundEntry) -> None:
        self._rarest = rarity(found.entries, 1)
        self._words: dict[str, list[Term]] = {}
        for term in found.terms:
            if term.wanted.telling:
                self._words.setdefault(term.wanted.word, []).append(term)
        asked = {wanted.word for wanted in found.query if wanted.telling}
        self._all = sum(_most(self._words.get(word, ())) or self._rarest for word in asked)

    def is_about(self, text: str) -> bool:
        inside = folded(text)
        told = {word: best for word, best in self._told(inside).items() if best > 0}
        sum_told = sum(told.values())
        if sum_told < ENOUGH * self._rarest:
            return False
        return len(told) > 1 or sum_told >= SHARE * self._all

    def _told(self, inside: str) -> Mapping[str, float]:
        return {word: _most([term for term in terms if term.signs in inside]) for word, terms in self._words.items()}


def _most(terms: Sequence[Term]) -> float:
    return max((term.value for term in terms), default=0.0)
