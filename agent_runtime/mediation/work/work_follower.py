"""Follow active work to its end: its progress, then its result."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Iterator

from agent_common.owned_tasks import OwnedTasks
from agent_common.protocol.work import Progress, WorkRequest, WorkResult, WorkUsage
from agent_common.telemetry import logger

from ...errors import StoreError
from ..ledger.outbox import Outbox
from .active_work import ActiveWork
from .turn_worker import RunningWork, WorkStop
from .window import RequestWindow

log = logger(__name__)
GIVE_UP_SECONDS = 20.0
"""Maximum seconds to wait for stopped work."""
RESULT_RETRY_SECONDS = (0.1, 0.5, 5.0)
"""Seconds between attempts to read a result that the disk did not store or return; the last one repeats."""
_NO_USAGE = WorkUsage()


class WorkFollower:
    """The requests that are being worked on. Each keeps its place in the window until its result is known."""

    def __init__(self, outbox: Outbox, window: RequestWindow) -> None:
        self._outbox = outbox
        self._window = window
        self._active: dict[str, ActiveWork] = {}
        self._tasks = OwnedTasks()
        self.on_change: Callable[[], None] = lambda: None
        """Called when work begins or ends."""

    def __len__(self) -> int:
        return len(self._active)

    def __iter__(self) -> Iterator[ActiveWork]:
        """Iterate over a copy, so that work may begin or end meanwhile."""
        return iter(tuple(self._active.values()))

    def get(self, request_id: str) -> ActiveWork | None:
        return self._active.get(request_id)

    def add(self, request: WorkRequest, job: RunningWork | None) -> ActiveWork:
        """Note that the request is being worked on. `run_to_end` or `follow` must come next."""
        work = self._active[request.request_id] = ActiveWork(request, job)
        self._window.claim_over_limit(request.request_id)
        self.on_change()
        return work

    def follow(self, request: WorkRequest, job: RunningWork | None) -> ActiveWork:
        """Follow work that was begun earlier, in a task of its own."""
        work = self.add(request, job)
        work.task = self._tasks.start(self.run_to_end(work), f"result of {request.request_id}")
        return work

    async def run_to_end(self, work: ActiveWork) -> None:
        """Send the progress of the work, then its result."""
        request_id = work.request.request_id
        result = None
        try:
            if await self._wait_ended(work):  # otherwise the next process has it
                result = await self._wait_for_result(work)
        finally:
            self._active.pop(request_id, None)
            self._window.release(request_id)
        if result is not None and work.forgotten:
            await self._outbox.acknowledge(request_id)
        elif result is not None:
            if work.job is not None and (usage := work.job.usage()) != _NO_USAGE:
                self._send_progress(work, Progress(request_id=request_id, seq=0, kind="usage", usage=usage))
            await self._outbox.deliver(result)
        self.on_change()

    async def _wait_ended(self, work: ActiveWork) -> bool:
        if work.job is None:
            return True
        if (progress := work.job.progress()) is None:
            return await work.job.wait_ended()
        forwarding = self._tasks.start(self._forward_progress(work, progress), f"progress of {work.request.request_id}")
        try:
            return await work.job.wait_ended()
        finally:
            forwarding.cancel()

    async def _wait_for_result(self, work: ActiveWork) -> WorkResult | None:
        """Return the result once it is on disk; keep asking while the disk is full or failing."""
        if work.job is not None and (known := work.job.result()) is not None:
            return known
        request_id = work.request.request_id
        for wait in itertools.chain(RESULT_RETRY_SECONDS, itertools.repeat(RESULT_RETRY_SECONDS[-1])):
            try:
                entry = await self._outbox.find(request_id)
                if entry is None or entry.result is not None:
                    return entry.result if entry is not None else None
            except StoreError as error:
                log.warning("a result could not be read, retrying", request_id=request_id, error=str(error))
            await asyncio.sleep(wait)
        return None

    def report_queued(self, work: ActiveWork) -> None:
        """Tell the host if the work begins later."""
        if work.job is not None and work.job.queued:
            self._send_progress(work, Progress(request_id=work.request.request_id, seq=0, kind="queued"))

    def cancel(self, work: ActiveWork, why: WorkStop) -> None:
        """Stop the work in the background, once."""
        if not work.stopping:
            work.stopping = True
            self._tasks.start(self.stop(work, why), f"cancel {work.request.request_id}")

    async def stop(self, work: ActiveWork, why: WorkStop) -> None:
        """Have the work end, or go on if it cannot be stopped in time."""
        try:
            async with asyncio.timeout(GIVE_UP_SECONDS):
                if work.job is not None:
                    await work.job.stop(why)
        except Exception as error:  # noqa: BLE001  the work continues, and its result follows later
            work.stopping = False
            log.warning("work could not be stopped", request_id=work.request.request_id, error=str(error))

    def tasks(self) -> list[asyncio.Task[None]]:
        """Return the tasks that follow the active work."""
        return [work.task for work in self._active.values() if work.task is not None]

    async def close(self) -> None:
        await self._tasks.close()

    async def _forward_progress(self, work: ActiveWork, progress: AsyncIterator[Progress]) -> None:
        async for frame in progress:
            self._send_progress(work, frame)

    def _send_progress(self, work: ActiveWork, frame: Progress) -> None:
        sender = self._outbox.sender
        if sender is None or not self._outbox.extended or work.forgotten:
            return
        for one in work.outgoing_progress(frame, sender.redactor):
            sender.send(one, droppable=one.kind not in ("queued", "started"))
