"""The interface of search providers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from agent_common.protocol import SearchHit

MAX_CONCURRENT = 16
"""Most concurrent searches of all agents together."""


class SearchProvider(Protocol):
    async def search(self, query: str, most: int, session: str) -> Sequence[SearchHit]:
        """Return at most `most` hits, best first. One session always uses the same engine. Raises RequestError if the
        engine fails."""
        ...

    def close(self) -> None: ...
