"""Make backups at intervals while the server runs."""

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
"""Earliest seconds after the start for the first backup, to leave the disk to the start itself."""
MAX_BACKUP_SECONDS = 600.0
"""Maximum seconds for one backup."""
GOODBYE_SECONDS = 2.0
"""Seconds that a cancelled backup has to end. One that hangs in the disk for longer is abandoned; its partial file is
removed by the next process."""


class BackupScheduler:
    """Makes the backups of a server: `start` once, `close` at the end. A failure is logged and tried again later."""

    def __init__(self, database: Database, minutes: float) -> None:
        self._database = database
        self._interval = minutes * 60
        self._copied = -1
        """Number of commits when the last backup began."""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="backups")

    async def close(self) -> None:
        """Cancel a running backup. Returns within a few seconds, even if the disk hangs."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        try:
            clear_drafts(self._database.path)
        except OSError as error:
            log.warning("partial backups could not be removed", reason=str(error))
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
        """Return the seconds to the first backup: soon, unless the newest one is younger than the interval."""
        soon = min(SOON, self._interval)
        newest = newest_backup(self._database.path)
        try:
            age = time.time() - newest.stat().st_mtime if newest else self._interval
        except FileNotFoundError:  # it was just replaced by a newer one
            age = 0.0
        return max(soon, self._interval - age) if age >= 0 else soon

    async def _back_up(self) -> bool:
        began = time.monotonic()
        backup = Backup(self._database.path, keep_identical=False)
        making = _in_thread(backup)
        try:
            await asyncio.wait([making], timeout=MAX_BACKUP_SECONDS)
        finally:  # also on time-out and shutdown
            await _stop(backup, making)
        if making.cancelled():
            log.warning("backup hangs on the disk", seconds=MAX_BACKUP_SECONDS)
        elif (error := making.exception()) is not None:
            log.warning("backup failed", reason=str(error))
        else:
            log.info("backup made", path=str(making.result()), ms=round((time.monotonic() - began) * 1000))
            return True
        return False


def _in_thread(backup: Backup) -> asyncio.Future[Path]:
    """Run the backup in its own thread, because a thread of a pool would delay the end of the process."""
    done: Future[Path] = Future()
    done.set_running_or_notify_cancel()

    def make() -> None:
        try:
            done.set_result(backup.make())
        except BaseException as error:  # noqa: BLE001  any failure goes to the waiting task
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
            making.result()  # retrieved, so that asyncio does not warn
