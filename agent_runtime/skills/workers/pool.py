"""Run the workers of one build: started when needed, one call at a time in each, replaced after a crash."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from ...errors import ToolFailure
from ...ports import ToolContext
from ..sources.staging import StagedBuild
from .process import SkillError, WorkerProcess, WorkerResult, WorkerSetup

MAX_WORKERS = 4
"""Workers of one plugin at a time; further calls wait."""
START_BACKOFF = (0.1, 0.4, 1.0)
"""Seconds between attempts to start a worker when the failure is not the plugin's."""
MAX_CRASHES = 3
"""Crashes in a row after which the plugin is disabled."""

T = TypeVar("T")


class WorkerPool:
    """The worker processes of one build; no other plugin shares them.

    A retired pool keeps no idle worker, but turns that began with it can still call it.
    """

    def __init__(
        self, setup: WorkerSetup, staged: StagedBuild, on_disabled: Callable[[WorkerPool], object] | None = None
    ) -> None:
        self._setup = setup
        self._staged = staged
        self._slots = asyncio.Semaphore(MAX_WORKERS)
        self._on_disabled = on_disabled
        self._crash_count = 0
        self._crashes_in_row = 0
        """Crashes since the last call that ended properly."""
        self._retired = asyncio.Event()
        self._closed = False
        self._thin_task: asyncio.Task[None] | None = None
        self.disabled_reason: str | None = None
        """Why the pool takes no more calls; None: it does."""

    @property
    def environment(self) -> Path | None:
        return self._staged.environment

    async def load(self) -> list[Mapping[str, Any]]:
        """Start a worker, run the plugin's `self_check`, and return the skills that it declares. The worker is kept for
        the first call. Raises ToolFailure."""
        async with self._setup.watched(self._staged):
            process, declared = await self._start_with_retries(on_trial=True)
            await self._release(process)
        return declared

    async def call(self, name: str, arguments: Mapping[str, Any], context: ToolContext | None = None) -> WorkerResult:
        """Return the skill's result. None for `context`: a test call. Raises ToolFailure."""
        async with self._slots:
            if self.disabled_reason is not None:
                raise ToolFailure(self.disabled_reason, kind="unavailable")
            if context is not None:
                return await self._count_crashes(self._call(name, arguments, context))
            async with self._setup.watched(self._staged):
                return await self._count_crashes(self._call(name, arguments, context))

    async def retire(self) -> None:
        """Close the idle workers: another build has taken the place of this one, or its plugin is gone."""
        self._retired.set()
        if self._thin_task is not None:
            await self._thin_task
        while (process := self._setup.idle.pop(self)) is not None:
            await process.close()

    async def close(self) -> None:
        """Retire the pool and delete its staged code; it takes no more calls."""
        self._closed = True
        await self.retire()
        await asyncio.to_thread(self._staged.discard)

    async def _call(self, name: str, arguments: Mapping[str, Any], context: ToolContext | None) -> WorkerResult:
        process = await self._get_worker(context)
        return await self._run_exchange(process, process.call(name, arguments, context))

    async def _count_crashes(self, call: Awaitable[T]) -> T:
        """Count crashes in a row. An error that a skill raises is no crash, and neither is a deadline. Of calls that
        ran at the same time one crash counts: a burst says no more than a single call."""
        began = self._crash_count
        try:
            result = await call
        except SkillError:
            self._crashes_in_row = 0
            raise
        except ToolFailure as failure:
            if failure.kind != "unavailable" and began == self._crash_count:
                self._record_crash(failure.message)
            raise
        self._crashes_in_row = 0
        return result

    def _record_crash(self, reason: str) -> None:
        self._crash_count += 1
        self._crashes_in_row += 1
        if self._crashes_in_row >= MAX_CRASHES and self.disabled_reason is None:
            self.disabled_reason = (
                f"it was disabled after {MAX_CRASHES} crashes in a row; save it again to enable it ({reason})"
            )
            if self._on_disabled is not None:
                self._on_disabled(self)

    async def _get_worker(self, context: ToolContext | None) -> WorkerProcess:
        """Return an idle worker, or a new one. An idle worker that has died is replaced without failing the call."""
        if (process := self._setup.idle.pop(self)) is not None:
            if process.resume():
                return process
            await process.close()
        if self._closed:
            raise ToolFailure("the runtime is stopping", kind="unavailable")
        return (await self._start_with_retries(context))[0]

    async def _start_with_retries(
        self, context: ToolContext | None = None, *, on_trial: bool = False
    ) -> tuple[WorkerProcess, list[Mapping[str, Any]]]:
        """Return a new worker and what it declares. Starts are retried, so that a machine that is briefly full fails no
        call."""
        pauses = START_BACKOFF if self._setup.confinement.name != "none" else ()
        for pause in (*pauses, None):
            try:
                return await self._start_worker(context, on_trial=on_trial)
            except ToolFailure as failure:
                if failure.kind != "unavailable" or pause is None:
                    raise
                await asyncio.sleep(pause)
        raise AssertionError  # the last one raises or returns

    async def _start_worker(
        self, context: ToolContext | None, *, on_trial: bool
    ) -> tuple[WorkerProcess, list[Mapping[str, Any]]]:
        process = await self._setup.start(self._staged, context)
        try:
            return process, await process.load(on_trial=on_trial)
        except BaseException:
            await process.close()
            raise

    async def _run_exchange(self, process: WorkerProcess, exchange: Awaitable[T]) -> T:
        """Return the outcome of an exchange. The worker is kept if it ended properly."""
        healthy = False
        try:
            result = await exchange
            healthy = True
            return result
        except SkillError:
            healthy = True
            raise
        finally:
            await self._release(process, healthy=healthy)

    async def _release(self, process: WorkerProcess, *, healthy: bool = True) -> None:
        """Keep the worker for the next call if it is fit for one and there is room; else close it."""
        surplus: WorkerProcess | None = process
        if healthy and not self._retired.is_set() and process.pause():
            surplus = self._setup.idle.add(self, process, asyncio.get_running_loop().time())
        if surplus is not None:
            await surplus.close()
        if self._thin_task is None and not self._retired.is_set() and self._setup.idle.has_several(self):
            self._thin_task = asyncio.create_task(self._close_surplus(), name="thin out idle workers")

    async def _close_surplus(self) -> None:
        """Close workers that have been idle for `linger_seconds`, until one is left."""
        idle = self._setup.idle
        linger = self._setup.linger_seconds
        now = asyncio.get_running_loop().time
        try:
            while idle.has_several(self) and not self._retired.is_set():
                with suppress(TimeoutError):
                    async with asyncio.timeout(linger):
                        await self._retired.wait()
                for process in idle.pop_idle_since(self, now() - linger):
                    await process.close()
        finally:
            self._thin_task = None
