"""What comes before what. The formula is in `docs/reference/memory.md` for people; here it stands for itself.

    relevance = sum over the terms that a text shares with the query of weight x rarity, x shortness
    score     = relevance x kind x (1 + RECENCY_WEIGHT x recency + USE_WEIGHT x use)

Recency and use are between 0 and 1, so that together they move a score by two fifths at most: they order what is
about equally relevant and bring up nothing that is not.
"""

from __future__ import annotations

import math

from ..index.schema import Kind
from ..sources.use_count import UseCount, decay

SATURATION, LENGTH_WEIGHT = 1.2, 0.3
"""BM25's k1 and b. Texts are short and a term counts once in each."""
RECENCY_WEIGHT, USE_WEIGHT = 0.2, 0.2
FRESH_DAYS = 90
"""After so many days half of the recency is left."""
HALF_USE_COUNT = 3
"""So many uses that are still fresh give half of what use can give."""
KIND_WEIGHTS: dict[Kind, float] = {"fact": 1.0, "file": 0.9, "session": 0.7}
"""What was written down to be kept is worth more than what was said in passing; a question is found by itself."""


def rarity(entries: int, entry_count: int) -> float:
    """Of a term that so many of the entries have."""
    return math.log(1 + (entries - entry_count + 0.5) / (entry_count + 0.5))


def length_factor(length: int, mean: float) -> float:
    """1 for a text of mean length; what long texts match by chance counts less."""
    return (SATURATION + 1) / (1 + SATURATION * (1 - LENGTH_WEIGHT + LENGTH_WEIGHT * length / mean))


def score(relevance: float, kind: Kind, at: int, uses: UseCount, now: int) -> float:
    """What a text is ranked by; `at` is when it was written or last confirmed."""
    use = 1 - 0.5 ** (uses.decayed(now) / HALF_USE_COUNT)
    return relevance * KIND_WEIGHTS[kind] * (1 + RECENCY_WEIGHT * decay(now - at, FRESH_DAYS) + USE_WEIGHT * use)
