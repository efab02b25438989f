"""The engines of the web, by `ddgs`. It blocks, so it runs in threads of its own."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import structlog

from agent_common.protocol import SearchHit

from ...errors import ProviderFailed, Unavailable
from .provider import MAX_CONCURRENT

log = structlog.get_logger(__name__)

ENGINE_SECONDS = 8
"""For each request to an engine."""
_LIBRARIES = frozenset({"grokipedia", "wikipedia"})
"""Engines that know only themselves."""
_TITLE, _SNIPPET, _URL = 300, 1000, 2000


class DdgsSearch:
    """One engine a session, chosen by a hash of its id. `proxy` and `verify` are those of `ddgs.DDGS`."""

    def __init__(self, proxy: str | None = None, *, verify: bool | str = True, seconds: int = ENGINE_SECONDS) -> None:
        self._options: dict[str, Any] = {"proxy": proxy, "verify": verify, "timeout": seconds}
        self._threads = ThreadPoolExecutor(MAX_CONCURRENT, "search")

    async def search(self, query: str, most: int, session: str) -> Sequence[SearchHit]:
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._threads, self._ask, query, most, session)
        return hits(found, most)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _ask(self, query: str, most: int, session: str) -> list[dict[str, Any]]:
        try:
            from ddgs import DDGS  # pyright: ignore[reportUnknownVariableType]
            from ddgs.engines import ENGINES
            from ddgs.exceptions import DDGSException, TimeoutException
        except ImportError as error:
            raise Unavailable("search needs ddgs, which is not installed on the host", code="search_off") from error
        engine = engine_of(session, list(ENGINES["text"]))
        try:
            return DDGS(**self._options).text(query, backend=engine, max_results=most)
        except TimeoutException as error:
            raise ProviderFailed(
                f"the search engine {engine} did not answer in time", code="provider_timeout"
            ) from error
        except DDGSException as error:
            if str(error).startswith("No results found"):
                return []
            log.warning("search_failed", engine=engine, error=str(error))
            raise ProviderFailed(
                f"the search engine {engine} cannot be reached", code="provider_unreachable"
            ) from error
        except Exception as error:
            # It reads pages that change without notice; what it makes of them must not look like a fault of ours.
            log.warning("search_broke", engine=engine, error=repr(error))
            raise ProviderFailed(f"the search engine {engine} answered something that cannot be read") from error


def engine_of(session: str, engines: Sequence[str]) -> str:
    """The engine of a session: always the same while there are the same engines."""
    usable = sorted(set(engines) - _LIBRARIES) or sorted(engines)
    number = int.from_bytes(hashlib.sha256(session.encode(errors="replace")).digest()[:8])
    return usable[number % len(usable)]


def hits(found: Sequence[Mapping[str, Any]], most: int) -> list[SearchHit]:
    """What ddgs found, without what is no page, and cut to size."""
    pages = [one for one in found if str(one.get("href", "")).startswith(("http://", "https://"))]
    return [
        SearchHit(
            title=str(page.get("title", ""))[:_TITLE],
            url=str(page["href"]),
            snippet=str(page.get("body", ""))[:_SNIPPET],
        )
        for page in pages
        if len(str(page["href"])) <= _URL
    ][:most]
