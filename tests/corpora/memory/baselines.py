"""What a search would find with nothing but FTS5: any word of the question, or any three letters in a row, or both."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Sequence

from agent_runtime.memory.text.normalize import fold
from agent_runtime.memory.text.stopwords import common_words

from .corpus import Fact

TOKENIZERS = ("unicode61", "trigram")
"""Two that SQLite brings along."""

_WORD = re.compile(r"\w+")
_IDEOGRAPHS = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]+")
_RANKED = "SELECT id, bm25(facts) FROM facts WHERE facts MATCH ? ORDER BY 2 LIMIT ?"


class Plain:
    """FTS5 in memory with one of `TOKENIZERS`, ranked by bm25."""

    def __init__(self, tokenizer: str, facts: Iterable[Fact]) -> None:
        self._tokenizer = tokenizer
        self._connection = sqlite3.connect(":memory:")
        self._connection.execute(f"CREATE VIRTUAL TABLE facts USING fts5(id UNINDEXED, text, tokenize = '{tokenizer}')")
        rows = ((fact.id, fact.text) for fact in facts)
        self._connection.executemany("INSERT INTO facts (id, text) VALUES (?, ?)", rows)

    async def search(self, query: str) -> Sequence[str]:
        """Ids of the best ten facts."""
        return [name for name, _ in self.ranked(_WORD.findall(query), 10)]

    def ranked(self, words: Iterable[str], limit: int) -> Sequence[tuple[str, float]]:
        """Ids of the facts that have any of the words, or any three letters in a row of them, and their bm25."""
        if self._tokenizer == "trigram":
            words = [word[at : at + 3] for word in words for at in range(len(word) - 2)]
        wanted = " OR ".join(f'"{word}"' for word in dict.fromkeys(words))
        return self._connection.execute(_RANKED, (wanted, limit)).fetchall() if wanted else []

    def close(self) -> None:
        self._connection.close()


class Both:
    """Both tokenizers over folded texts, by the sum of their bm25, without the words that only ask and join. With
    `pairs` Chinese and Japanese are indexed as pairs of characters: a trigram is longer than most of their words."""

    def __init__(self, facts: Iterable[Fact], *, pairs: bool = False) -> None:
        self._pairs = pairs
        folded = [Fact(fact.id, fact.lang, fold(fact.text), fact.tags) for fact in facts]
        split = [Fact(fact.id, fact.lang, self._split(fact.text), fact.tags) for fact in folded]
        self._words, self._parts = Plain("unicode61", split), Plain("trigram", folded)

    async def search(self, query: str) -> Sequence[str]:
        """Ids of the best ten facts."""
        words = _WORD.findall(fold(query))
        common = common_words(words)
        words = [word for word in words if word not in common] or words
        sums: dict[str, float] = {}
        for index, asked in ((self._words, _WORD.findall(self._split(" ".join(words)))), (self._parts, words)):
            for name, rank in index.ranked(asked, 60):
                sums[name] = sums.get(name, 0.0) + rank
        return sorted(sums, key=lambda name: sums[name])[:10]  # the less, the better

    def close(self) -> None:
        self._words.close()
        self._parts.close()

    def _split(self, text: str) -> str:
        return _IDEOGRAPHS.sub(lambda run: f" {' '.join(_pairs(run[0]))} ", text) if self._pairs else text


def _pairs(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(len(run) - 1)] or [run]
