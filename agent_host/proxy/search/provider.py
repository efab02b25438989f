"""The seam between the desk and the engines that search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from agent_common.protocol import SearchHit

MAX_CONCURRENT = 16
"""Searches of all agents together."""


class SearchProvider(Protocol):
    async def search(self, query: str, most: int, session: str) -> Sequence[SearchHit]:
        """What was found, best first. The same session gets the same engine. Raises RequestError."""
        ...

    def close(self) -> None: ...
