"""Keep which files with instructions a call changes, from its beginning to its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

from .authorship import OpenCall, PromptFileAuthors, Writer

_threads = ThreadPoolExecutor(2, "authors")
"""Threads of their own: a call that waited for a thread that others keep would neither begin nor end."""


@asynccontextmanager
async def watch_call(
    authors: PromptFileAuthors | None, writer: Callable[[], Writer], turn: asyncio.Lock | None = None
) -> AsyncGenerator[None]:
    """Attribute what changes during the block to the writer, also if it is cancelled. `turn`: whoever waits for the
    same one begins after those that came before. Without `authors` nobody keeps it."""
    if authors is None:
        yield
        return
    call = asyncio.get_running_loop().run_in_executor(_threads, authors.begin, writer)
    try:
        async with turn or asyncio.Lock():
            await asyncio.shield(call)
        yield
    finally:
        await asyncio.shield(_end(authors, call))


async def _end(authors: PromptFileAuthors, call: asyncio.Future[OpenCall]) -> None:
    await asyncio.get_running_loop().run_in_executor(_threads, authors.end, await call)
