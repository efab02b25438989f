"""Search the web with `ddgs`, which blocks and therefore runs in its own threads."""

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
"""Timeout of each request to an engine."""
_LIBRARIES = frozenset({"grokipedia", "wikipedia"})
"""Engines of ddgs that search only their own site."""
_TITLE = 300
_SNIPPET = 1000
_URL = 2000


class DdgsSearch:
    """Uses one engine for each session, chosen by a hash of its id. `proxy` and `verify` are as in `ddgs.DDGS`."""

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
            # ddgs parses pages that change without notice; its errors must not look like an internal error of the host.
            log.warning("search_broke", engine=engine, error=repr(error))
            raise ProviderFailed(f"the answer of the search engine {engine} cannot be parsed") from error


def engine_of(session: str, engines: Sequence[str]) -> str:
    """Return the engine of a session, always the same for the same list of engines."""
    usable = sorted(set(engines) - _LIBRARIES) or sorted(engines)
    number = int.from_bytes(hashlib.sha256(session.encode(errors="replace")).digest()[:8])
    return usable[number % len(usable)]


def hits(found: Sequence[Mapping[str, Any]], most: int) -> list[SearchHit]:
    """Return at most `most` results of ddgs that are web pages, with long texts cut."""
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
