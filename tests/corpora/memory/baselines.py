"""What a search would find with nothing but FTS5: any word of the question, or any three letters in a row."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Sequence

from .corpus import Fact

TOKENIZERS = ("unicode61", "trigram")
"""Two that SQLite brings along."""

_WORD = re.compile(r"\w+")


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
        words = _WORD.findall(query)
        if self._tokenizer == "trigram":
            words = [word[at : at + 3] for word in words for at in range(len(word) - 2)]
        wanted = " OR ".join(f'"{word}"' for word in dict.fromkeys(words))
        if not wanted:
            return []
        found = self._connection.execute("SELECT id FROM facts WHERE facts MATCH ? ORDER BY rank LIMIT 10", (wanted,))
        return [name for (name,) in found]

    def close(self) -> None:
        self._connection.close()
