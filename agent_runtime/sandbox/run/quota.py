"""Measure how full the folders are that commands write to.

Walking a folder is slow, while asking the file system for its free space is one system call. So the free space is
checked many times a second, and the folder is measured only when enough space has gone to matter, for any reason.
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
"""Bytes and files that may be used up before the folder is measured again; less if less of its quota is left."""
MIN_SLACK = MiB, 64
FRESH_SECONDS = 0.2
"""Seconds that a measurement stays valid while anything is written; longer if measuring takes long."""
MEASURE_SHARE = 50
"""At most one part in this many of the time is spent measuring, unless much space has gone."""
START_WAIT_SECONDS = 2.0
"""Seconds that the start of a command waits for the measurement of its folders."""
RUNNING_WAIT_SECONDS = 0.3
"""Seconds that a running command is trusted during a measurement, even if the free space shrinks."""
UNMEASURED_BYTES = 256 * MiB
"""Bytes beyond the quota that are tolerated if only the free space is known: during longer measurements, and for data
that is in no folder."""
RESERVED = 64 * MiB, 20_000, 8
"""Bytes and files of a file system that commands must leave free for the database and others; on a smaller one, one
part in this many."""
WALK_SECONDS = 20.0
"""Maximum seconds of a walk; the remaining size is estimated from the free space."""

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
    """Bytes in a folder at its last measurement, and bytes free on its file system now."""

    used: int
    free: int


class FolderMeter:
    """Measures the usage of one folder, and estimates it from the free space until the next measurement."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.used: DiskAmount | None = None
        self._free = DiskAmount(0, 0)
        """Free space at the last measurement."""
        self._began = self._measured_at = self._cost = 0.0
        self._measuring: asyncio.Task[None] | None = None

    def consumed(self) -> DiskAmount:
        """Return the space of the file system that was used up since the measurement, by any process."""
        return self._free.minus(_free_space(self.folder))

    def capacity(self) -> DiskAmount:
        """Return what the folder may hold before its file system is almost full, as of the last measurement."""
        whole = _free_space(self.folder) if self.used is None else self.used + self._free
        kept = _reserved_space(self.folder)
        left = whole.minus(kept)
        return left if kept.files else DiskAmount(left.bytes, sys.maxsize)  # some file systems do not count files

    def is_due(self, limit: DiskAmount) -> bool:
        if self.used is None:
            return True
        gone = self.consumed()
        left = limit.minus(self.used)
        slack = DiskAmount(
            max(MIN_SLACK[0], min(REMEASURE_AFTER[0], left.bytes // 2)),
            max(MIN_SLACK[1], min(REMEASURE_AFTER[1], left.files // 2)),
        )
        age = time.monotonic() - self._measured_at
        if gone.exceeds(slack):
            return age > self._cost
        # Even if more space is free than before: a gain in one folder may hide a loss in another.
        return self.has_changed and age > max(FRESH_SECONDS, MEASURE_SHARE * self._cost)

    @property
    def has_changed(self) -> bool:
        """Whether anything was written or deleted on the file system since the measurement."""
        return _free_space(self.folder) != self._free

    def measure(self) -> asyncio.Task[None]:
        """Start a measurement, or return the running one."""
        if self._measuring is None or self._measuring.done():
            self._measuring = asyncio.create_task(self._measure())
        return self._measuring

    @property
    def is_slow(self) -> bool:
        """Whether a measurement has been running for too long to rely on the previous one."""
        running = self._measuring is not None and not self._measuring.done()
        return running and time.monotonic() - self._began > RUNNING_WAIT_SECONDS

    async def _measure(self) -> None:
        self._began = began = time.monotonic()
        free = _free_space(self.folder)
        before = self.used
        gone = self.consumed()
        found, whole = await _measure_folder(self.folder)
        if not whole and before is not None:  # some folders are not readable: rely on the free space
            guess = before + gone
            found = DiskAmount(max(found.bytes, guess.bytes), max(found.files, guess.files))
        self.used = found
        self._free = free
        self._measured_at = time.monotonic()
        self._cost = self._measured_at - began


class QuotaTable:
    """The meters of a server's folders. They outlive commands, so that many small steps are noticed too."""

    def __init__(self) -> None:
        self._meters: dict[Path, FolderMeter] = {}

    async def allowances(self, quotas: Iterable[Quota]) -> tuple[Allowance, ...]:
        """Return the allowances of a command that starts now. Folders are measured first if their usage is
        uncertain."""
        allowances = [Allowance(quota, self._meter(quota.folder)) for quota in quotas]
        await asyncio.gather(*(one.set_limit() for one in allowances))
        return tuple(allowances)

    async def overrun_message(self, quotas: Iterable[Quota]) -> str | None:
        """Return a message for the model if a command has ended before the guard noticed that it had filled a
        folder."""
        full = [one.message for one in await self.allowances(quotas) if one.is_full]
        return f"{'; '.join(full)}. {FULL_MESSAGE}" if full else None

    async def require_space(self, quota: Quota, size: int) -> None:
        """Raise ToolFailure if there is no room for `size` more bytes."""
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
    """The limit of a folder for one command: its quota, or its size at the start if it was already larger."""

    def __init__(self, quota: Quota, meter: FolderMeter) -> None:
        self.quota = quota
        self._meter = meter
        self._limit = self._effective_quota
        self._files_left = _free_space(quota.folder).files

    @property
    def _effective_quota(self) -> DiskAmount:
        """The quota, or the capacity of the file system if that is less."""
        most = self._meter.capacity()
        return DiskAmount(min(self.quota.bytes, most.bytes), min(self.quota.files, most.files))

    @property
    def bytes(self) -> int:
        """Maximum bytes in the folder."""
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
        """Lower the limit of an overfull folder to its present size, so that deleted space cannot be filled again."""
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
        """The message for the model about a full folder."""
        used = self._meter.used or DiskAmount(0, 0)
        if used.bytes > self.quota.bytes:
            held = _format_size(used.bytes)
            most = _format_size(self.quota.bytes)
            return f"{self.quota.name} holds {held}, and {most} is the most it may hold"
        if used.bytes > self._effective_quota.bytes:
            left = _format_size(_free_space(self.quota.folder).bytes)
            return f"{self.quota.name} holds {_format_size(used.bytes)}, and the disk is almost full: {left} are left"
        if used.files <= self.quota.files:
            return f"the disk has almost no room for more files: {_free_space(self.quota.folder).files} are left"
        return f"{self.quota.name} holds {used.files} files, and {self.quota.files} is the most it may hold"

    async def fits(self, size: int) -> bool:
        """Return whether `size` bytes fit. Space taken by others counts as used until a measurement shows otherwise."""
        meter = self._meter
        near = self._effective_quota.minus(meter.used or DiskAmount(0, 0)).bytes < size + REMEASURE_AFTER[0]
        if near and meter.has_changed:  # space freed by others may hide writes to this folder
            await _wait_for(meter.measure())
        for last in (False, True):
            used = meter.used or DiskAmount(0, 0)
            if used.bytes + meter.consumed().bytes + size <= self._effective_quota.bytes:
                return True
            if not last:
                await _wait_for(meter.measure())
        return False

    async def refresh(self) -> None:
        """Measure the folder again."""
        await _wait_for(self._meter.measure())

    def state(self) -> FolderState:
        used = self._meter.used or DiskAmount(0, 0)
        return FolderState(used.bytes, _free_space(self.quota.folder).bytes)

    @property
    def remaining(self) -> int:
        used = self._meter.used or DiskAmount(0, 0)
        return self._limit.minus(used).bytes

    async def is_overdrawn(self) -> bool:
        """Check whether the command has filled the folder beyond its limit."""
        meter = self._meter
        if _free_space(self.quota.folder).files < min(self._files_left, _reserved_space(self.quota.folder).files // 2):
            return True  # there is no reserve of files, so do not wait for a measurement
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
    """Estimates the space that a command keeps in deleted files which it holds open: they are in no folder.

    No interface lists them all, as descriptors may be in transit between processes. But space that has gone since the
    command began, and is in none of its folders, must be somewhere; and the kernel counts the bytes that a process
    writes.
    """

    def __init__(self, allowances: Sequence[Allowance]) -> None:
        self._allowances = allowances
        self._began = [one.state() for one in allowances]
        self._bytes = 0

    def exceeds_limit(self, written: float = math.inf) -> bool:
        """Return whether a command that has written this many bytes keeps more of them than there was room for."""
        now = [one.state() for one in self._allowances]
        gone = max(before.free - after.free for before, after in zip(self._began, now, strict=True))
        found = sum(after.used - before.used for before, after in zip(self._began, now, strict=True))
        self._bytes = gone - found
        return min(self._bytes, written) > UNMEASURED_BYTES + max(one.remaining for one in self._allowances)

    @property
    def message(self) -> str:
        """The message for the model."""
        return f"files that it deleted but keeps open take {_format_size(self._bytes)}, and there is no room for them"


async def _wait_for(task: asyncio.Task[None], seconds: float = START_WAIT_SECONDS) -> None:
    """Wait for a measurement, which continues if the time runs out."""
    await asyncio.wait((task,), timeout=seconds)


def _format_size(count: int) -> str:
    return f"{count / MiB:.0f} MiB" if count < 10 * 1024 * MiB else f"{count / (1024 * MiB):.1f} GiB"


def _free_space(folder: Path) -> DiskAmount:
    try:
        left = os.statvfs(folder)
    except OSError:  # deleted meanwhile
        return DiskAmount(0, 0)
    return DiskAmount(left.f_bfree * left.f_frsize, left.f_ffree)


def _reserved_space(folder: Path) -> DiskAmount:
    """Return the space that commands must leave free."""
    try:
        disk = os.statvfs(folder)
    except OSError:
        return DiskAmount(0, 0)
    most_bytes, most_files, share = RESERVED
    return DiskAmount(min(most_bytes, disk.f_blocks * disk.f_frsize // share), min(most_files, disk.f_files // share))


async def _measure_folder(folder: Path) -> tuple[DiskAmount, bool]:
    """Return the usage of a folder, and whether all of it was counted."""
    units = ("--block-size=1", "--inodes")  # one walk reports only one of them
    size, files = await asyncio.gather(*(asyncio.to_thread(_du, folder, unit) for unit in units))
    return DiskAmount(size[0], files[0]), size[1] and files[1]


def _du(folder: Path, unit: str) -> tuple[int, bool]:
    """Measure with `du`: no tree can stop it, and it does not block the server's interpreter."""
    argv = ("nice", "-n", "5", "du", "-s", "-x", unit, "--", str(folder))
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=WALK_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0, False
    count = done.stdout.split(b"\t")[0]
    return (int(count) if count.isdigit() else 0), done.returncode == 0
