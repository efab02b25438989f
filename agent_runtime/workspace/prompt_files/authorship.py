"""Keep who wrote the files that become instructions of all sessions: the server sees it, whatever the files say.

Tools and commands may write these files. Around each call that can, their state is compared; what has changed is the
agent's of that user. A state that no call has left is a person's. The record is in the data folder, which no tool and
no command can reach.
"""

from __future__ import annotations

import os
import stat
import tempfile
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from agent_common.telemetry import logger

from ...ports import Clock
from ..home import Home
from .watched_files import NOTES, watched_files

MAX_RECORDS = 2000
"""Files on record: more than are watched at one time."""

State = tuple[int, int, int, int]
"""Inode, size, and times of last change: different after every write."""

log = logger(__name__)


class FileWrite(BaseModel):
    """The last write of a file by an agent."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    state: State
    principal: str
    agent: str
    at: int
    """Epoch milliseconds."""
    unreviewed: bool
    """Whether the conversation held text from outside, and no person has approved the call."""

    def author_for(self, principal: str) -> str:
        """Return the author as a user may know it."""
        whose = "your agent" if self.principal == principal else "the agent of another user"
        return f"{whose}, {datetime.fromtimestamp(self.at / 1000, UTC):%Y-%m-%d %H:%M} UTC"


_RECORDS = TypeAdapter(dict[str, FileWrite], config=ConfigDict(defer_build=True))


@dataclass(frozen=True, slots=True)
class Writer:
    """Who makes a call."""

    principal: str
    agent: str
    unreviewed: bool
    only: frozenset[str] | None = None
    """The files that the call itself names; None: it may have changed any."""


class PromptFileAuthors:
    """The authors of one home's files. Safe in any thread; all methods read the disk."""

    def __init__(self, home: Home, clock: Clock) -> None:
        self._home, self._clock = home, clock
        self._file = home.data_dir / "prompt-file-authors.json"
        self._lock = threading.Lock()
        self._records = self._load()
        self._calls = 0
        self._expected: dict[str, State] = {}
        """The files as they were before the calls that run now, or as the runtime has left them since."""

    def states(self) -> dict[str, State]:
        """Return the state of each file that is there."""
        return {str(path): state for path in watched_files(self._home) if (state := _state_of(path)) is not None}

    def watched(self) -> frozenset[Path]:
        """Return the files whose authors are kept. Of another one nobody knows who wrote it."""
        return frozenset(watched_files(self._home))

    def begin(self) -> Mapping[str, State]:
        """A call begins that can write. Return the states before it."""
        before = self.states()
        with self._lock:
            if not self._calls:
                self._expected = dict(before)
            self._calls += 1
        return before

    def end(self, before: Mapping[str, State], writer: Writer) -> None:
        """The call has ended: what has changed since is that writer's, unless the runtime itself wrote it."""
        now = self.states()
        with self._lock:
            self._calls -= 1
            changed = [path for path, state in now.items() if before.get(path) != state]
            mine = [path for path in changed if writer.only is None or path in writer.only]
            mine = [path for path in mine if path not in _own(self._home) or self._expected.get(path) != now[path]]
            self._record({path: now[path] for path in mine}, writer)

    @contextmanager
    def own_write(self, path: Path) -> Generator[None]:
        """The runtime writes a file of notes during the block. What a call has left there before stays on record."""
        name, before = str(path), _state_of(path)
        with self._lock:
            if self._calls and before is not None and before != self._expected.get(name):
                self._record({name: before}, Writer("", "", unreviewed=False))
        yield
        with self._lock:
            if (state := _state_of(path)) is not None:
                self._expected[name] = state

    def _record(self, states: Mapping[str, State], writer: Writer) -> None:
        for path, state in states.items():
            log.info("instructions changed", path=path, principal=writer.principal, unreviewed=writer.unreviewed)
            self._records.pop(path, None)
            self._records[path] = FileWrite(
                state=state,
                principal=writer.principal,
                agent=writer.agent,
                at=self._clock.now_ms(),
                unreviewed=writer.unreviewed,
            )
        if len(self._records) > MAX_RECORDS:
            self._drop_records()
        if states:
            self._save()

    def _drop_records(self) -> None:
        """Drop those of files that are gone, then those of files that no prompt has, the reviewed and the oldest first:
        commands can make any number of files, so that another one would be taken for a person's."""
        watched = {str(path) for path in self.watched()}

        def importance(path: str) -> tuple[bool, bool, bool]:
            there = _state_of(Path(path)) is not None
            return there and path in watched, there, self._records[path].unreviewed

        dropped = frozenset(sorted(self._records, key=importance)[:-MAX_RECORDS])
        self._records = {path: write for path, write in self._records.items() if path not in dropped}

    def forget(self, path: Path) -> None:
        """Take note that a person has written the file."""
        with self._lock:
            if self._records.pop(str(path), None) is not None:
                self._save()

    def last_write(self, path: Path) -> FileWrite | None:
        """Return the agent's write that made the file what it is; None if a person made it so."""
        found = self._records.get(str(path))
        return found if found is not None and found.state == _state_of(path) else None

    def is_unreviewed(self, path: Path) -> bool:
        """Return whether an agent that had read text from outside made the file what it is, and no person agreed."""
        return (found := self.last_write(path)) is not None and found.unreviewed

    def was_written_by_agent(self, path: Path) -> bool:
        """Return whether a tool or a command has ever written the file, however it was changed since."""
        return str(path) in self._records

    def _load(self) -> dict[str, FileWrite]:
        try:
            return _RECORDS.validate_json(self._file.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValidationError) as error:
            log.error("authors of instructions cannot be read", path=str(self._file), error=str(error))
            return {}

    def _save(self) -> None:
        try:
            with tempfile.NamedTemporaryFile(dir=self._file.parent, prefix=self._file.name, delete=False) as new:
                new.write(_RECORDS.dump_json(self._records))
                new.flush()
                os.fsync(new.fileno())
            os.replace(new.name, self._file)
        except OSError as error:
            log.error("authors of instructions cannot be kept", path=str(self._file), error=str(error))


def _own(home: Home) -> frozenset[str]:
    return frozenset(str(home.records / name) for name in NOTES)


def _state_of(path: Path) -> State | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    regular = stat.S_ISREG(found.st_mode)
    return (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns) if regular else None
