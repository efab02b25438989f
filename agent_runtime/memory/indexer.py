"""Keep the index up to date with files and sessions: one scan of each at a time, for which a search waits briefly."""

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
"""Seconds that a search waits for the index to be up to date."""
SCAN_PAUSE = 0.3
"""Minimum seconds between two scans of files."""
PAUSE_FACTOR = 20
MAX_SCAN_PAUSE = 10.0
"""The pause after a scan is PAUSE_FACTOR times its duration, at most MAX_SCAN_PAUSE seconds."""
IDLE_SECONDS = 15.0
"""Seconds without a write after which the server counts as idle."""
MAX_SCOPES = 200
"""Principals for whom the times of scans are kept."""


class IndexerTask:
    """Runs a piece of work once at a time; concurrent callers share a run."""

    def __init__(self, work: Callable[[], Awaitable[None]]) -> None:
        self._work = work
        self._running: asyncio.Task[None] | None = None

    def start(self) -> asyncio.Task[None]:
        """Return the current run, or start one."""
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
        except Exception:  # a bug here must not fail every search
            log.exception("the index of memory is not up to date")


class _ScopeFiles:
    """Scans and indexes the files of one scope, with pauses."""

    def __init__(self, files: FileIndexer, clock: Clock) -> None:
        self._files = files
        self._clock = clock
        self._next = float("-inf")
        self.task = IndexerTask(self._update)

    @property
    def missing(self) -> bool:
        return self._files.missing

    def is_due(self) -> bool:
        return self._clock.monotonic() >= self._next

    async def _update(self) -> None:
        """Scan the files and index the changes. The pause begins with the scan: files may change while it indexes."""
        pause = SCAN_PAUSE
        try:
            changed = await self._files.scan()
            pause = min(MAX_SCAN_PAUSE, max(SCAN_PAUSE, PAUSE_FACTOR * changed.seconds))
        finally:
            self._next = self._clock.monotonic() + pause
        await self._files.index_changes(changed)


class Indexer:
    """Keeps files and sessions indexed. Call `start` once, and `close` in the end."""

    def __init__(self, database: Database, home: Home, clock: Clock, redactor: Redactor) -> None:
        self._database = database
        self._home = home
        self._clock = clock
        self._redactor = redactor
        self._session_indexer = SessionIndexer(database, redactor)
        self._session_task = IndexerTask(self._index_sessions)
        self._reached = -1
        """The database's count of commits when all messages were last indexed."""
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
        """Index new messages. Return whether that is done, for the wait is brief."""
        commits = self._database.commits
        for _ in range(2):  # a run in progress may have begun too early
            if self._reached >= commits:
                return True
            if not await _wait_briefly([self._session_task.start()]):
                return False
        return self._reached >= commits

    async def forget_messages(self, message_ids: Sequence[str]) -> None:
        """Remove messages from the index. Raises StoreError."""
        await self._session_indexer.forget_messages(message_ids)

    async def update_files(self, principal: str) -> bool:
        """Index changed files. Return whether that is done, for the wait is brief."""
        both = (self._files_of(None), self._files_of(principal))
        for _ in range(2):  # a run in progress may have begun too early
            early = [looks for looks in both if looks.task.running]
            tasks = [looks.task.start() for looks in both if looks in early or looks.is_due()]
            if not await _wait_briefly(tasks):
                return False
            if not early:
                break
        return True

    def has_missing_files(self, principal: str) -> bool:
        """Return whether some files are not indexed because there are too many."""
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
        """Forget one principal's scans; the next search by that principal scans again."""
        for principal, looks in self._scope_files.items():
            if principal is not None and looks.is_due() and not looks.task.running:
                del self._scope_files[principal]
                return

    async def _index_sessions(self) -> None:
        """Index all messages that are not indexed yet."""
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
    """Wait briefly. Return whether all tasks are done; the others continue."""
    if not tasks:
        return True
    _, left = await asyncio.wait(tasks, timeout=SEARCH_WAIT_SECONDS)
    return not left
