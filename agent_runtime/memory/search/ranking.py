"""Rank entries; docs/reference/memory.md explains the formula.

    relevance = sum over the terms that a text shares with the query of weight x rarity, x shortness
    score     = relevance x kind x (1 + RECENCY_WEIGHT x recency + USE_WEIGHT x use)

Recency and use are between 0 and 1, so that together they change a score by two fifths at most: they order entries of
similar relevance, and lift no irrelevant ones.
"""

from __future__ import annotations

import math

from ..index.schema import Kind
from ..sources.use_count import UseCount, decay

SATURATION = 1.2
LENGTH_WEIGHT = 0.3
"""BM25's k1 and b. Texts are short and a term counts once in each."""
RECENCY_WEIGHT = 0.2
USE_WEIGHT = 0.2
FRESH_DAYS = 90
"""Days after which recency has halved."""
HALF_USE_COUNT = 3
"""Number of fresh uses that give half of the largest gain by use."""
KIND_WEIGHTS: dict[Kind, float] = {"fact": 1.0, "file": 0.9, "session": 0.7}
"""Texts that were written to be kept rank above what was said in passing, since a past question matches itself best."""


def rarity(entries: int, entry_count: int) -> float:
    """Return the rarity of a term that `entry_count` of the entries have."""
    return math.log(1 + (entries - entry_count + 0.5) / (entry_count + 0.5))


def length_factor(length: int, mean: float) -> float:
    """Return the factor for a text's length, 1 at the mean: matches in long texts are more often by chance."""
    return (SATURATION + 1) / (1 + SATURATION * (1 - LENGTH_WEIGHT + LENGTH_WEIGHT * length / mean))


def score(relevance: float, kind: Kind, at: int, uses: UseCount, now: int) -> float:
    """Return the score; `at` is when the text was written or last confirmed, in epoch milliseconds."""
    use = 1 - 0.5 ** (uses.decayed(now) / HALF_USE_COUNT)
    return relevance * KIND_WEIGHTS[kind] * (1 + RECENCY_WEIGHT * decay(now - at, FRESH_DAYS) + USE_WEIGHT * use)
