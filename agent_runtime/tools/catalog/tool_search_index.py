"""Find tools by words: BM25 over names and descriptions, with more weight for words of the name."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

NAME_WEIGHT = 3
"""Number of times that a word of the name counts."""
K1 = 1.2
B = 0.75
_WORD = re.compile(r"[^\W_]+")
_CAMEL_CASE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_ENDINGS = ("ing", "ies", "ed", "es", "s", "y", "e")


class ToolIndex:
    """Immutable index. A query costs time proportional to the tools that share a word with it."""

    def __init__(self, tools: Sequence[tuple[str, str]]) -> None:
        """`tools` are pairs of id and description."""
        self._tools = sorted(tools)
        counted = [Counter([*tokenize(name) * NAME_WEIGHT, *tokenize(about)]) for name, about in self._tools]
        self._lengths = [count.total() for count in counted]
        self._mean_length = sum(self._lengths) / len(self._lengths) if self._lengths else 0.0
        self._postings: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for at, count in enumerate(counted):
            for word, times in count.items():
                self._postings[word].append((at, times))

    def search(self, query: str, limit: int) -> list[tuple[str, str]]:
        """Return at most `limit` ids with their descriptions, the best first; each shares a word with the query."""
        scores: dict[int, float] = defaultdict(float)
        for word in set(tokenize(query)):
            places = self._postings.get(word, ())
            rarity = math.log(1 + (len(self._tools) - len(places) + 0.5) / (len(places) + 0.5))
            for at, times in places:
                long = 1 - B + B * self._lengths[at] / self._mean_length
                scores[at] += rarity * times * (K1 + 1) / (times + K1 * long)
        best = sorted(scores, key=lambda at: (-round(scores[at], 9), at))
        return [self._tools[at] for at in best[:limit]]


def tokenize(text: str) -> list[str]:
    """Return the words of a text without their endings; `readFile` and `read_file` are two words. In scripts without
    spaces, every two characters count as a word."""
    return [word for piece in _WORD.findall(_CAMEL_CASE.sub(" ", text)) for word in _stems(piece.casefold())]


def _stems(word: str) -> Iterator[str]:
    if word.isascii():
        yield next((word[: -len(one)] for one in _ENDINGS if word.endswith(one) and len(word) - len(one) >= 3), word)
        return
    yield word
    if len(word) > 2:
        yield from (word[at : at + 2] for at in range(len(word) - 1))
