"""Report when something may have changed in a folder, even if the folder itself is replaced."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from pathlib import Path

from agent_common.telemetry import logger

STEP_MS = 25
"""A burst of changes is over when nothing has changed for this long."""
DEBOUNCE_MS = 200
"""A longer burst is reported after this long."""
WAKE_MS = 2000
"""Longest time between two looks at whether the folder is still the same, and until the first scan after the start."""
WAKES_PER_SCAN = 3
"""After so many without an event a scan runs: some volumes report no changes, and the event queue may overflow."""
RETRY_SECONDS = 1.0
"""Seconds between scans of a folder that is missing or cannot be watched."""

log = logger(__name__)


async def watch(folder: Path, on_change: Callable[[], Awaitable[None]], stop: asyncio.Event) -> None:
    """Call `on_change` after every burst of changes, and every few seconds without any, until `stop` is set. Do not
    cancel this: a thread waits for the changes, and only that event ends it."""
    while not stop.is_set():
        try:
            await on_change()  # also where nothing can be watched
            await _watch_until_replaced(folder, on_change, stop)
        except Exception as error:  # noqa: BLE001  after any error the folder is still scanned at intervals
            log.warning("the folder of skills cannot be watched", error=str(error))
        with suppress(TimeoutError):
            async with asyncio.timeout(RETRY_SECONDS):
                await stop.wait()


async def _watch_until_replaced(folder: Path, on_change: Callable[[], Awaitable[None]], stop: asyncio.Event) -> None:
    """Watch until the folder is replaced or gone."""
    from watchfiles import awatch  # pyright: ignore[reportUnknownVariableType]  a path may be of any kind there

    began = await asyncio.to_thread(_inode, folder)
    if began is None:
        return
    waits = 0
    changes = awatch(
        folder,
        watch_filter=None,
        debounce=DEBOUNCE_MS,
        step=STEP_MS,
        stop_event=stop,
        rust_timeout=WAKE_MS,
        yield_on_timeout=True,
        raise_interrupt=False,
        ignore_permission_denied=True,
    )
    async with aclosing(changes):
        async for burst in changes:
            # That it has begun to watch shows only here. What was saved before that is found by this scan.
            if burst or waits % WAKES_PER_SCAN == 0:
                await on_change()
            waits = 1 if burst else waits + 1
            if await asyncio.to_thread(_inode, folder) != began:
                return


def _inode(folder: Path) -> int | None:
    try:
        return folder.stat().st_ino
    except OSError:
        return None
