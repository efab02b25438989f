"""Keeps the index up to date beside the searches: one look at a time, and none that a search must wait for long."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence

from agent_common.redaction import Redactor
from agent_common.telemetry import logger

from ..errors import AgentRuntimeError
from ..ports import Clock
from ..store import Database
from ..workspace import Home
from .sources.files import FileIndexer
from .sources.session_indexer import SessionIndexer

log = logger(__name__)

SEARCH_WAIT_SECONDS = 0.3
"""Seconds that a search waits for what is new."""
SCAN_PAUSE = 0.3
"""Seconds between two looks at files."""
PAUSE_FACTOR, MAX_SCAN_PAUSE = 20, 10.0
"""So many times as long as a look took is the pause behind it, and no longer than so many seconds."""
IDLE_SECONDS = 15.0
"""Seconds without a write after which nothing else is to be done."""
MAX_SCOPES = 200
"""Principals whose files are known to have been looked at."""


class IndexerTask:
    """Work that is done once at a time, by whoever asks first."""

    def __init__(self, work: Callable[[], Awaitable[None]]) -> None:
        self._work = work
        self._running: asyncio.Task[None] | None = None

    def start(self) -> asyncio.Task[None]:
        """The work that goes on, or begins now."""
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._run_logged(), name="memory index")
        return self._running

    @property
    def running(self) -> bool:
        return self._running is not None and not self._running.done()

    async def close(self) -> None:
        if self._running is not None:
            self._running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._running

    async def _run_logged(self) -> None:
        try:
            await self._work()
        except AgentRuntimeError as error:
            log.warning("the index of memory is not up to date", reason=error.message)
        except Exception:  # a bug in here must not be met by every search
            log.exception("the index of memory is not up to date")


class _ScopeFiles:
    """Looks at the files of one scope."""

    def __init__(self, files: FileIndexer, clock: Clock) -> None:
        self._files, self._clock = files, clock
        self._next = float("-inf")
        self.task = IndexerTask(self._update)

    @property
    def missing(self) -> bool:
        return self._files.missing

    def is_due(self) -> bool:
        return self._clock.monotonic() >= self._next

    async def _update(self) -> None:
        """The pause begins with the look: while what it has found is taken in, more may change."""
        pause = SCAN_PAUSE
        try:
            changed = await self._files.scan()
            pause = min(MAX_SCAN_PAUSE, max(SCAN_PAUSE, PAUSE_FACTOR * changed.seconds))
        finally:
            self._next = self._clock.monotonic() + pause
        await self._files.index_changes(changed)


class Indexer:
    """What of files and sessions is in the index."""

    def __init__(self, database: Database, home: Home, clock: Clock, redactor: Redactor) -> None:
        self._database, self._home, self._clock, self._redactor = database, home, clock, redactor
        self._session_indexer = SessionIndexer(database, redactor)
        self._session_task = IndexerTask(self._index_sessions)
        self._reached = -1
        """How many transactions there were when the last message was reached."""
        self._scope_files: dict[str | None, _ScopeFiles] = {}
        self._idle_task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._idle_task = asyncio.create_task(self._run_when_idle(), name="memory in idle time")

    async def close(self) -> None:
        if self._idle_task is not None:
            self._idle_task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._idle_task
        for task in (self._session_task, *(looks.task for looks in self._scope_files.values())):
            await task.close()

    async def update_sessions(self) -> bool:
        """Takes in what was said since the last time; whether that is all, for a search does not wait long."""
        commits = self._database.commits
        for _ in range(2):  # what goes on already may have begun too early
            if self._reached >= commits:
                return True
            if not await _wait_briefly([self._session_task.start()]):
                return False
        return self._reached >= commits

    async def forget_messages(self, message_ids: Sequence[str]) -> None:
        """Takes what was said in messages out of the index. Raises StoreError."""
        await self._session_indexer.forget_messages(message_ids)

    async def update_files(self, principal: str) -> bool:
        """Takes in the files that have changed; whether that is all."""
        both = (self._files_of(None), self._files_of(principal))
        for _ in range(2):  # what goes on already may have begun too early
            early = [looks for looks in both if looks.task.running]
            tasks = [looks.task.start() for looks in both if looks in early or looks.is_due()]
            if not await _wait_briefly(tasks):
                return False
            if not early:
                break
        return True

    def has_missing_files(self, principal: str) -> bool:
        """Whether there are more files than memory can hold."""
        return any(self._files_of(whose).missing for whose in (None, principal))

    def _files_of(self, principal: str | None) -> _ScopeFiles:
        if principal not in self._scope_files:
            if len(self._scope_files) >= MAX_SCOPES:
                self._evict_one()
            self._scope_files[principal] = _ScopeFiles(
                FileIndexer(self._database, self._home, principal, self._redactor), self._clock
            )
        return self._scope_files[principal]

    def _evict_one(self) -> None:
        """Whoever comes again is looked at again."""
        for principal, looks in self._scope_files.items():
            if principal is not None and looks.is_due() and not looks.task.running:
                del self._scope_files[principal]
                return

    async def _index_sessions(self) -> None:
        """To the last message."""
        commits = self._database.commits
        more = True
        while more:
            more = await self._session_indexer.index_batch()
        self._reached = commits

    async def _run_when_idle(self) -> None:
        before = -1
        while True:
            await asyncio.sleep(IDLE_SECONDS)
            commits = self._database.commits
            if commits == before and commits != self._reached:
                await self._session_task.start()
                commits = self._database.commits
            before = commits


async def _wait_briefly(tasks: Sequence[asyncio.Task[None]]) -> bool:
    """Waits a little; whether all is done. What is not goes on."""
    if not tasks:
        return True
    _, left = await asyncio.wait(tasks, timeout=SEARCH_WAIT_SECONDS)
    return not left
