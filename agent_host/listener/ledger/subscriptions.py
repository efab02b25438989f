"""Wait for work and follow its changes from memory; its end is reported once it is on disk."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from agent_common.protocol.work import Progress

from .ledger import WorkLedger
from .work import LedgerRecord, OpenWork

MOST_NEWS = 256
"""Changes that are queued for a slow reader; older ones are dropped."""
MOST_TEXT = 1 << 20
"""Characters of progress that are queued for a slow reader."""


async def read_as_delivered(ledger: WorkLedger, request_id: str) -> LedgerRecord:
    """Return the current record; an end that is read counts as delivered. Raises NotFound."""
    record = await ledger.read(request_id)
    ledger.mark_delivered(record)
    return record


async def wait(ledger: WorkLedger, request_id: str, seconds: float) -> LedgerRecord:
    """Return the record once the work is over, or the current one after the timeout. Raises NotFound."""
    work = ledger.find_open(request_id)
    if work is None:
        return await read_as_delivered(ledger, request_id)
    loop = asyncio.get_running_loop()
    over: asyncio.Future[None] = loop.create_future()

    def end() -> None:
        if not over.done():
            over.set_result(None)

    def watch(_: OpenWork, progress: Progress | None) -> None:
        if progress is None and work.recorded:
            end()

    deadline = loop.call_later(seconds, end)
    work.watchers.append(watch)
    try:
        watch(work, None)
        await over
    finally:
        deadline.cancel()
        work.watchers.remove(watch)
    if not work.recorded:
        return await read_as_delivered(ledger, request_id)
    record = work.to_record()
    ledger.mark_delivered(record)
    return record


async def follow(ledger: WorkLedger, request_id: str) -> AsyncGenerator[LedgerRecord | Progress]:
    """Yield each change of the record, and progress, until the work is over. Slow readers lose progress. Raises
    NotFound."""
    news: asyncio.Queue[Progress | None] = asyncio.Queue(MOST_NEWS)
    behind = 0
    """Characters in the queue."""

    def watch(_: OpenWork, progress: Progress | None) -> None:
        nonlocal behind
        size = _size(progress)
        if progress is not None and (news.full() or behind + size > MOST_TEXT):
            return
        if news.full():  # drop the oldest: a reader that missed the last change would wait forever
            behind -= _size(news.get_nowait())
        behind += size
        news.put_nowait(progress)

    work = ledger.active.get(request_id)
    record = None
    if work is not None:
        work.watchers.append(watch)
    try:
        record = await ledger.read(request_id)
        yield record
        while work is not None and not record.is_finished:
            progress = await news.get()
            behind -= _size(progress)
            if progress is not None:
                yield progress
                continue
            fresh = await ledger.current_record(work)
            if fresh != record:
                record = fresh
                yield record
    finally:
        if work is not None:
            work.watchers.remove(watch)
        if record is not None:
            ledger.mark_delivered(record)


def _size(progress: Progress | None) -> int:
    return len(progress.text or "") if progress is not None else 0
