"""How full the folders are that commands write to.

Walking a folder is slow, asking the file system how much room is left is one system call. So the room left is asked for
many times a second, and the folder is measured only when enough of it has gone to matter, whoever took it.
"""

from __future__ import annotations

import asyncio
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...errors import ToolFailure
from ..spec.spec import MiB, Quota

REMEASURE_AFTER = 32 * MiB, 2000
"""Bytes and files that may go before the folder is measured; less where less is left of its quota."""
MIN_SLACK = MiB, 64
FRESH_SECONDS = 0.2
"""Seconds for which a measurement is good while anything is written at all; longer where measuring takes long."""
MEASURE_SHARE = 50
"""One part in so many of the time goes into measuring, unless much room has gone."""
START_WAIT_SECONDS = 2.0
"""Seconds that a command waits to be started while its folders are being measured."""
RUNNING_WAIT_SECONDS = 0.3
"""Seconds that a running one is believed meanwhile, whatever the room left tells."""
UNMEASURED_BYTES = 256 * MiB
"""What may go beyond the quota where only the room left tells: while measuring takes longer than that, and where the
folder does not hold it."""
RESERVED = 64 * MiB, 20_000, 8
"""Bytes and files of a file system that commands leave free, for the database and for others; of a smaller one, one
part in this many."""
WALK_SECONDS = 20.0
"""Seconds that a walk may take; what it has not seen by then is guessed from the room left."""

FULL_MESSAGE = "Until enough is deleted nothing can be written"


@dataclass(frozen=True, slots=True)
class DiskAmount:
    bytes: int
    files: int

    def __add__(self, other: DiskAmount) -> DiskAmount:
        return DiskAmount(self.bytes + other.bytes, self.files + other.files)

    def minus(self, other: DiskAmount) -> DiskAmount:
        return DiskAmount(max(0, self.bytes - other.bytes), max(0, self.files - other.files))

    def exceeds(self, other: DiskAmount) -> bool:
        return self.bytes > other.bytes or self.files > other.files


@dataclass(frozen=True, slots=True)
class FolderState:
    """Bytes that a folder holds, as it was last measured, and that are left on its file system."""

    used: int
    free: int


class FolderMeter:
    """One folder's use, known at one moment and guarded from there by the room left."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.used: DiskAmount | None = None
        self._free = DiskAmount(0, 0)
        """What was left when it was measured."""
        self._began = self._measured_at = self._cost = 0.0
        self._measuring: asyncio.Task[None] | None = None

    def consumed(self) -> DiskAmount:
        """What has been taken of the file system since the measurement, by anybody."""
        return self._free.minus(_free_space(self.folder))

    def capacity(self) -> DiskAmount:
        """What the folder may hold before its file system is almost full, as of the last measurement."""
        whole = _free_space(self.folder) if self.used is None else self.used + self._free
        kept = _reserved_space(self.folder)
        left = whole.minus(kept)
        return left if kept.files else DiskAmount(left.bytes, sys.maxsize)  # some file systems count no files

    def is_due(self, limit: DiskAmount) -> bool:
        if self.used is None:
            return True
        gone, left = self.consumed(), limit.minus(self.used)
        slack = DiskAmount(
            max(MIN_SLACK[0], min(REMEASURE_AFTER[0], left.bytes // 2)),
            max(MIN_SLACK[1], min(REMEASURE_AFTER[1], left.files // 2)),
        )
        age = time.monotonic() - self._measured_at
        if gone.exceeds(slack):
            return age > self._cost
        # Also when there is more room than before: what one folder gains another may have lost.
        return self.has_changed and age > max(FRESH_SECONDS, MEASURE_SHARE * self._cost)

    @property
    def has_changed(self) -> bool:
        """Whether anybody has written or deleted anything on the file system since the measurement."""
        return _free_space(self.folder) != self._free

    def measure(self) -> asyncio.Task[None]:
        """A measurement that began after now, or one that is running."""
        if self._measuring is None or self._measuring.done():
            self._measuring = asyncio.create_task(self._measure())
        return self._measuring

    @property
    def is_slow(self) -> bool:
        """Whether a measurement has been running for too long to go by the one before."""
        running = self._measuring is not None and not self._measuring.done()
        return running and time.monotonic() - self._began > RUNNING_WAIT_SECONDS

    async def _measure(self) -> None:
        self._began = began = time.monotonic()
        room, before, gone = _free_space(self.folder), self.used, self.consumed()
        found, whole = await _measure_folder(self.folder)
        if not whole and before is not None:  # parts were closed to us: believe the file system
            guess = before + gone
            found = DiskAmount(max(found.bytes, guess.bytes), max(found.files, guess.files))
        self.used, self._free, self._measured_at = found, room, time.monotonic()
        self._cost = self._measured_at - began


class QuotaTable:
    """The meters of a server's folders. They outlive commands, so that many small steps are noticed as well."""

    def __init__(self) -> None:
        self._meters: dict[Path, FolderMeter] = {}

    async def allowances(self, quotas: Iterable[Quota]) -> tuple[Allowance, ...]:
        """What a command that starts now may do. Folders whose fill is not known well enough are measured."""
        allowances = [Allowance(quota, self._meter(quota.folder)) for quota in quotas]
        await asyncio.gather(*(one.set_limit() for one in allowances))
        return tuple(allowances)

    async def overrun_message(self, quotas: Iterable[Quota]) -> str | None:
        """What a command has left too full that was over before anybody looked; for the model."""
        full = [one.message for one in await self.allowances(quotas) if one.is_full]
        return f"{'; '.join(full)}. {FULL_MESSAGE}" if full else None

    async def require_space(self, quota: Quota, size: int) -> None:
        """Raises ToolFailure when so many bytes more do not fit."""
        one = Allowance(quota, self._meter(quota.folder))
        await one.set_limit()
        if one.is_full or not await one.fits(size):
            raise ToolFailure(f"there is no room for {size} bytes: {one.message}. Delete something first")

    def _meter(self, folder: Path) -> FolderMeter:
        if folder not in self._meters:
            for old in [path for path in self._meters if not path.exists()]:
                del self._meters[old]
            self._meters[folder] = FolderMeter(folder)
        return self._meters[folder]


class Allowance:
    """A quota as it holds for one command: what the folder may come to, or what it had come to before."""

    def __init__(self, quota: Quota, meter: FolderMeter) -> None:
        self.quota, self._meter = quota, meter
        self._limit = self._effective_quota
        self._files_left = _free_space(quota.folder).files

    @property
    def _effective_quota(self) -> DiskAmount:
        """The quota, or the room of the file system if that is less."""
        most = self._meter.capacity()
        return DiskAmount(min(self.quota.bytes, most.bytes), min(self.quota.files, most.files))

    @property
    def bytes(self) -> int:
        """The most that the folder may hold."""
        return self._effective_quota.bytes

    async def set_limit(self) -> None:
        if self._meter.is_due(self._effective_quota) or self.is_full:
            await _wait_for(self._meter.measure())
        used = self._meter.used or DiskAmount(0, 0)
        slack = DiskAmount(*MIN_SLACK) if self.is_full else DiskAmount(0, 0)
        self._limit = (
            DiskAmount(max(self._effective_quota.bytes, used.bytes), max(self._effective_quota.files, used.files))
            + slack
        )

    def _lower_limit(self) -> None:
        """What has been deleted of too much does not come back."""
        if self._meter.used is not None:
            used = self._meter.used + DiskAmount(*MIN_SLACK)
            low = DiskAmount(min(self._limit.bytes, used.bytes), min(self._limit.files, used.files))
            self._limit = DiskAmount(
                max(low.bytes, self._effective_quota.bytes), max(low.files, self._effective_quota.files)
            )

    @property
    def is_full(self) -> bool:
        return self._meter.used is not None and self._meter.used.exceeds(self._effective_quota)

    @property
    def message(self) -> str:
        """For the model, about a folder that is full."""
        used = self._meter.used or DiskAmount(0, 0)
        if used.bytes > self.quota.bytes:
            held, most = _format_size(used.bytes), _format_size(self.quota.bytes)
            return f"{self.quota.name} holds {held}, and {most} is the most it may hold"
        if used.bytes > self._effective_quota.bytes:
            left = _format_size(_free_space(self.quota.folder).bytes)
            return f"{self.quota.name} holds {_format_size(used.bytes)}, and the disk is almost full: {left} are left"
        if used.files <= self.quota.files:
            return f"the disk has almost no room for more files: {_free_space(self.quota.folder).files} are left"
        return f"{self.quota.name} holds {used.files} files, and {self.quota.files} is the most it may hold"

    async def fits(self, size: int) -> bool:
        """Whether so many bytes fit in. What others took meanwhile counts until a measurement says better."""
        meter = self._meter
        near = self._effective_quota.minus(meter.used or DiskAmount(0, 0)).bytes < size + REMEASURE_AFTER[0]
        if near and meter.has_changed:  # what others have freed may hide what was written here
            await _wait_for(meter.measure())
        for last in (False, True):
            used = meter.used or DiskAmount(0, 0)
            if used.bytes + meter.consumed().bytes + size <= self._effective_quota.bytes:
                return True
            if not last:
                await _wait_for(meter.measure())
        return False

    async def refresh(self) -> None:
        """Has the folder measured, from now on."""
        await _wait_for(self._meter.measure())

    def state(self) -> FolderState:
        used = self._meter.used or DiskAmount(0, 0)
        return FolderState(used.bytes, _free_space(self.quota.folder).bytes)

    @property
    def remaining(self) -> int:
        used = self._meter.used or DiskAmount(0, 0)
        return self._limit.minus(used).bytes

    async def is_overdrawn(self) -> bool:
        """Looks once. Whether the command has carried the folder beyond what it may hold."""
        meter = self._meter
        if _free_space(self.quota.folder).files < min(self._files_left, _reserved_space(self.quota.folder).files // 2):
            return True  # no reserve gives files back, so nothing waits for a measurement
        if meter.is_due(self._limit):
            await _wait_for(meter.measure(), RUNNING_WAIT_SECONDS)
            self._lower_limit()
        if meter.used is None:
            return False
        if meter.is_slow:
            return (meter.used + meter.consumed()).exceeds(
                self._limit + DiskAmount(UNMEASURED_BYTES, self._effective_quota.files)
            )
        return meter.used.exceeds(self._limit)


class DeletedFileUsage:
    """What a command may keep in files that it has deleted and holds open: they lie in no folder.

    Nothing tells of them all, as they may be on their way between two processes. But room that has gone since the
    command began, and is found in none of its folders, went to somebody; and the kernel counts what a process writes.
    """

    def __init__(self, allowances: Sequence[Allowance]) -> None:
        self._allowances = allowances
        self._began = [one.state() for one in allowances]
        self._bytes = 0

    def exceeds_limit(self, written: float = math.inf) -> bool:
        """Whether a command that has written so much keeps more than would have fitted in."""
        now = [one.state() for one in self._allowances]
        gone = max(before.free - after.free for before, after in zip(self._began, now, strict=True))
        found = sum(after.used - before.used for before, after in zip(self._began, now, strict=True))
        self._bytes = gone - found
        return min(self._bytes, written) > UNMEASURED_BYTES + max(one.remaining for one in self._allowances)

    @property
    def message(self) -> str:
        """For the model."""
        return f"files that it deleted but keeps open take {_format_size(self._bytes)}, and there is no room for them"


async def _wait_for(task: asyncio.Task[None], seconds: float = START_WAIT_SECONDS) -> None:
    """Waits for a measurement, which goes on when this took too long."""
    await asyncio.wait((task,), timeout=seconds)


def _format_size(count: int) -> str:
    return f"{count / MiB:.0f} MiB" if count < 10 * 1024 * MiB else f"{count / (1024 * MiB):.1f} GiB"


def _free_space(folder: Path) -> DiskAmount:
    try:
        left = os.statvfs(folder)
    except OSError:  # it has been removed
        return DiskAmount(0, 0)
    return DiskAmount(left.f_bfree * left.f_frsize, left.f_ffree)


def _reserved_space(folder: Path) -> DiskAmount:
    """What commands leave free."""
    try:
        disk = os.statvfs(folder)
    except OSError:
        return DiskAmount(0, 0)
    most_bytes, most_files, share = RESERVED
    return DiskAmount(min(most_bytes, disk.f_blocks * disk.f_frsize // share), min(most_files, disk.f_files // share))


async def _measure_folder(folder: Path) -> tuple[DiskAmount, bool]:
    """What lies in a folder, and whether that is all of it."""
    units = ("--block-size=1", "--inodes")  # one walk tells only one of them
    size, files = await asyncio.gather(*(asyncio.to_thread(_du, folder, unit) for unit in units))
    return DiskAmount(size[0], files[0]), size[1] and files[1]


def _du(folder: Path, unit: str) -> tuple[int, bool]:
    """By a program, because no tree that a command can make stops it, and it leaves the server's interpreter free."""
    argv = ("nice", "-n", "5", "du", "-s", "-x", unit, "--", str(folder))
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=WALK_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0, False
    count = done.stdout.split(b"\t")[0]
    return (int(count) if count.isdigit() else 0), done.returncode == 0
