"""Makes a backup from time to time while the server works."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from concurrent.futures import Future
from pathlib import Path

from agent_common.telemetry import logger

from ..errors import StoreError
from .backups import Backup, clear_drafts, newest_backup
from .database import Database

log = logger(__name__)
SOON = 30.0
"""Seconds after the start at the earliest: a life that has just begun has better things to do."""
MAX_BACKUP_SECONDS = 600.0
"""What one backup may take."""
GOODBYE_SECONDS = 2.0
"""What a backup that was broken off gets to end. One that hangs in the disk longer is left behind; its half-done file
goes with the next life."""


class BackupScheduler:
    """Owns the backups of a server: `start` once, `close` at the end. A failure is logged and tried again later."""

    def __init__(self, database: Database, minutes: float) -> None:
        self._database, self._interval = database, minutes * 60
        self._copied = -1
        """How many commits there were when the last backup began."""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="backups")

    async def close(self) -> None:
        """Breaks off what is under way; returns within a few seconds, whatever the disk does."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        try:
            clear_drafts(self._database.path)
        except OSError as error:
            log.warning("half-done backups could not be removed", reason=str(error))
        if self._interval == 0:
            return
        wait = self._first_wait()
        while True:
            await asyncio.sleep(wait)
            wait = self._interval
            commits = self._database.commits
            if commits != self._copied and await self._back_up():
                self._copied = commits

    def _first_wait(self) -> float:
        """The rhythm goes on over restarts: it is soon, unless the newest backup is younger than the interval."""
        soon, newest = min(SOON, self._interval), newest_backup(self._database.path)
        try:
            age = time.time() - newest.stat().st_mtime if newest else self._interval
        except FileNotFoundError:  # somebody has just made a newer one
            age = 0.0
        return max(soon, self._interval - age) if age >= 0 else soon

    async def _back_up(self) -> bool:
        began = time.monotonic()
        backup = Backup(self._database.path, keep_identical=False)
        making = _in_thread(backup)
        try:
            await asyncio.wait([making], timeout=MAX_BACKUP_SECONDS)
        finally:  # done, out of time, or the server closes
            await _stop(backup, making)
        if making.cancelled():
            log.warning("backup hangs in the disk", seconds=MAX_BACKUP_SECONDS)
        elif (error := making.exception()) is not None:
            log.warning("backup failed", reason=str(error))
        else:
            log.info("backup made", path=str(making.result()), ms=round((time.monotonic() - began) * 1000))
            return True
        return False


def _in_thread(backup: Backup) -> asyncio.Future[Path]:
    """A thread of its own, which nobody has to wait for: those of a pool hold up the end of the process."""
    done: Future[Path] = Future()
    done.set_running_or_notify_cancel()

    def make() -> None:
        try:
            done.set_result(backup.make())
        except BaseException as error:  # noqa: BLE001  whatever it is, it is told to the one who waits
            done.set_exception(error if isinstance(error, StoreError) else StoreError(f"a bug: {error!r}"))

    threading.Thread(target=make, name="backup", daemon=True).start()
    return asyncio.wrap_future(done)


async def _stop(backup: Backup, making: asyncio.Future[Path]) -> None:
    until = time.monotonic() + GOODBYE_SECONDS
    while not making.done() and time.monotonic() < until:
        backup.stop()
        await asyncio.wait([making], timeout=0.02)
    if not making.cancel():
        with contextlib.suppress(StoreError):
            making.result()  # it has been looked at
