"""The file that tells the next process of the host which processes a machine consists of."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from ...driver import StartFailed

_NAME = "machine.json"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_STATE = 0
_STARTED = 19
"""Positions in /proc/PID/stat, from the field after the command's name."""
_ENDED = ("Z", "X")


class ProcessRecord(BaseModel):
    model_config = ConfigDict(frozen=True)

    name: str
    pid: int
    started: int
    """Clock ticks from the boot of the system to the start of the process, which a reused process id does not share."""

    @property
    def running(self) -> bool:
        """Whether the process still runs. It is never another one with the same id."""
        return _read_start(self.pid) == self.started

    @classmethod
    def of(cls, name: str, pid: int) -> ProcessRecord:
        """Return the record of a process. Raises StartFailed if it has ended."""
        started = _read_start(pid)
        if started is None:
            raise StartFailed(f"{name} has ended at once")
        return cls(name=name, pid=pid, started=started)


class MachineRecord(BaseModel):
    model_config = ConfigDict(frozen=True)

    driver: str
    workspace: str
    boot_id: str
    """The boot of the system in which the processes were started."""
    processes: tuple[ProcessRecord, ...] = ()
    booted: bool = False
    """Whether the guest has answered. A machine that was still starting when the host died is started anew."""

    @classmethod
    def empty(cls, driver: str, workspace: str) -> MachineRecord:
        """Return the record of a machine that has no processes yet."""
        return cls(driver=driver, workspace=workspace, boot_id=_read_boot_id())

    def with_process(self, process: ProcessRecord) -> MachineRecord:
        return self.model_copy(update={"processes": (*self.processes, process)})

    def with_guest(self) -> MachineRecord:
        return self.model_copy(update={"booted": True})


def write_record(folder: Path, record: MachineRecord) -> None:
    """Write the record in one step. Only the host's user can read it."""
    fresh = folder / f"{_NAME}.new"
    fresh.unlink(missing_ok=True)
    handle = os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(record.model_dump_json())
    fresh.replace(folder / _NAME)


def read_record(folder: Path) -> MachineRecord | None:
    """Return the record of the machine, or None if it has no processes. Raises StartFailed if the file is damaged."""
    path = folder / _NAME
    try:
        record = MachineRecord.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise StartFailed(f"{path} cannot be read; end the machine's processes and delete the file: {error}") from error
    return record if record.boot_id == _read_boot_id() else None  # processes end with the system


def delete_record(folder: Path) -> None:
    (folder / _NAME).unlink(missing_ok=True)


def _read_boot_id() -> str:
    return _BOOT_ID.read_text().strip()


def _read_start(pid: int) -> int | None:
    """Return when the process was started, or None if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[_STATE] in _ENDED else int(fields[_STARTED])
