"""Run searches, with limits on their number in a session and on their time."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence

from agent_common.net import ShareCounter
from agent_common.protocol import SearchHit, SearchRequest

from ...errors import ProviderFailed, RequestError, TooMany, Unavailable
from .provider import MAX_CONCURRENT, SearchProvider

SEARCH_SECONDS = 14.0
"""One second less than an agent waits, so that the agent receives the reason."""
MAX_SEARCHES = 25
"""Most searches of one session."""
MAX_SESSIONS = 10_000
"""Most sessions whose searches are counted; the oldest is forgotten first."""


class SearchService:
    """Runs searches of agents. Search is off if `provider` is None."""

    def __init__(
        self, provider: SearchProvider | None, *, seconds: float = SEARCH_SECONDS, most: int = MAX_SEARCHES
    ) -> None:
        self._provider = provider
        self._seconds = seconds
        self._most = most
        self._counts: OrderedDict[tuple[str, str], int] = OrderedDict()
        self._shares = ShareCounter(MAX_CONCURRENT)

    async def search(self, agent_id: str, request: SearchRequest) -> Sequence[SearchHit]:
        """Search, and return the hits. Raises RequestError if search is off, over a limit, too slow, or fails."""
        if self._provider is None:
            raise Unavailable("search is off on this host (MESH_SEARCH)", code="search_off")
        with self._shares.hold(agent_id) as reserved:
            if not reserved:
                raise TooMany("you have too many searches at a time; try again later", code="too_many_searches")
            self._count(agent_id, request.session)
            try:
                async with asyncio.timeout(self._seconds):
                    return await self._provider.search(request.query, request.max_results, request.session)
            except TimeoutError as error:
                message = f"the search took longer than {self._seconds:g} s"
                raise ProviderFailed(message, code="provider_timeout") from error

    def close(self) -> None:
        if self._provider is not None:
            self._provider.close()

    def _count(self, agent_id: str, session: str) -> None:
        key = agent_id, session
        count = self._counts.get(key, 0)
        if count >= self._most:
            error = RequestError(f"a session may search {self._most} times", code="search_limit")
            error.status = 429
            raise error
        self._counts[key] = count + 1
        self._counts.move_to_end(key)
        if len(self._counts) > MAX_SESSIONS:
            self._counts.popitem(last=False)
