"""Keep who wrote the files that become instructions of all sessions: the server sees it, whatever the files say.

Tools and commands may write these files. Around each call that can, their state is compared; what has changed is the
agent's of that user. Of calls that run at the same time each may have written a file, so that one of them is enough to
leave it unreviewed. A state that no call has left is a person's; what has changed while one ran that never ended,
because the server died, is unreviewed. The record is in the data folder, which no tool and no command can reach.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from agent_common.telemetry import logger

from ...ports import Clock
from ..home import Home
from .kept_file import replace_file
from .unfinished_calls import UnfinishedCallsFile
from .watched_files import State, state_of, watched_files

MAX_RECORDS = 2000
"""Files on record: more than are watched at one time."""

BEING_WRITTEN: State = (0, 0, 0, 0)
"""The state of a file while the runtime writes it."""

PLUGIN = ""
"""Stands for a user where a plugin that nobody has called has written."""

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
        if self.principal == PLUGIN:
            whose = "a plugin with skills"
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
    clears: bool = False
    """Whether nothing is left of what was in the file, or a person has agreed: it is not unreviewed for that."""

    @classmethod
    def of_plugin(cls, file: str) -> Writer:
        """Return a plugin that runs outside of any call."""
        return cls(PLUGIN, file, unreviewed=True)


@dataclass(frozen=True, slots=True, eq=False)
class OpenCall:
    """A call that may write, from its beginning to its end."""

    before: dict[str, State]
    """The files before the call, or as others have left them since who are known."""
    writer: Callable[[], Writer]
    """Returns who makes it; what it has read until now decides about a review."""

    def may_have_written(self, path: str, state: State) -> bool:
        return self.before.get(path) != state and ((only := self.writer().only) is None or path in only)

    def may_leave_unreviewed(self) -> bool:
        """Return whether files may be unreviewed at its end: a command may still use a network, and an edit keeps what
        was in the file."""
        writer = self.writer()
        may_change = writer.only is None or not writer.only.isdisjoint(self.before)
        return writer.unreviewed or (may_change and not writer.clears)


class PromptFileAuthors:
    """The authors of one home's files. Safe in any thread; all methods read the disk."""

    def __init__(self, home: Home, clock: Clock) -> None:
        self._home = home
        self._clock = clock
        self._file = home.data_dir / "prompt-file-authors.json"
        self._unfinished = UnfinishedCallsFile(home.data_dir / "prompt-file-calls.json")
        self._lock = threading.Lock()
        self._records = self._load()
        self._open: tuple[OpenCall, ...] = ()
        self._attribute_unfinished()

    def states(self) -> dict[str, State]:
        """Return the state of each file that is there."""
        return {str(path): state for path in watched_files(self._home) if (state := state_of(path)) is not None}

    def watched(self) -> frozenset[Path]:
        """Return the files whose authors are kept. Of another one nobody knows who wrote it."""
        return frozenset(watched_files(self._home))

    def begin(self, writer: Callable[[], Writer]) -> OpenCall:
        """A call begins that can write. Waits for the disk."""
        call = OpenCall(self.states(), writer)
        now = writer()
        with self._lock:
            self._open = (*self._open, call)
            if call.may_leave_unreviewed():
                self._unfinished.keep(call.before, now.principal, now.agent)
        return call

    def end(self, call: OpenCall) -> None:
        """The call has ended: what it may have written, and nobody who is known, is its writer's."""
        now = self.states()
        writer = call.writer()
        with self._lock:
            changed = {path: state for path, state in now.items() if call.may_have_written(path, state)}
            for path, state in changed.items():
                write = self._attribute(path, state, writer, call.before.get(path))
                if write is not None:
                    self._record(path, write)
                if writer.only is not None or (write is not None and write.unreviewed):
                    self._set_known(path, state)
            self._open = tuple(one for one in self._open if one is not call)
            if changed:
                self._save()
            if not any(one.may_leave_unreviewed() for one in self._open):
                self._unfinished.remove()

    def _attribute_unfinished(self) -> None:
        """What has changed since calls began that the server did not see end is unreviewed, as far as no call that has
        ended has written it."""
        left = self._unfinished.load()
        if left is None:
            return
        for path, state in self.states().items():
            known = self._records.get(path)
            if state != left.before.get(path) and (known is None or known.state != state):
                self._record(path, self._write(state, Writer(left.principal, left.agent, unreviewed=True)))
        self._save()
        self._unfinished.remove()

    def _attribute(self, path: str, state: State, writer: Writer, before: State | None) -> FileWrite | None:
        """Return who counts as the author of what this writer may have written; None: that is on record."""
        known = self._records.get(path)
        if known is not None and known.state == state:  # by a call that has ended meanwhile
            return self._write(state, writer) if writer.unreviewed and not known.unreviewed else None
        if known is not None and known.unreviewed and known.state == before and not writer.clears:
            return known.model_copy(update={"state": state})  # what nobody has reviewed is still in it
        if before is None and not writer.clears and (moved := self._find_unreviewed(state)) is not None:
            return moved.model_copy(update={"state": state})  # also if it lies elsewhere now
        suspect = self._suspect(path, state) if writer.only is None else None
        return self._write(state, suspect if suspect is not None and suspect.unreviewed else writer)

    def _find_unreviewed(self, state: State) -> FileWrite | None:
        """Return the unreviewed write of a file that has been moved: all but the time of the move is the same."""
        return next((one for one in self._records.values() if one.unreviewed and one.state[:3] == state[:3]), None)

    def _suspect(self, path: str, state: State) -> Writer | None:
        """Return who makes a call that runs now and may have written the file, first of all an unreviewed one."""
        writers = [call.writer() for call in self._open if call.may_have_written(path, state)]
        return max(writers, key=lambda writer: writer.unreviewed, default=None)

    def _set_known(self, path: str, state: State) -> None:
        """It is known who has written the file: none of the calls that run now."""
        for call in self._open:
            call.before[path] = state
        self._unfinished.set_known(path, state)

    @contextmanager
    def own_write(self, path: Path) -> Generator[None]:
        """The runtime adds to a file of notes during the block. The file stays whose it was, also over a crash."""
        name = str(path)
        with self._lock:
            before = self._records.get(name)
            write = self.last_write(path)
            if write is not None:
                self._records[name] = write.model_copy(update={"state": BEING_WRITTEN})
                self._save()
        try:
            yield
        finally:
            with self._lock:
                state = state_of(path)
                if state is not None:
                    self._set_known(name, state)
                if write is not None and state is not None:
                    self._records[name] = write.model_copy(update={"state": state})
                    self._save()
                elif before is not None:
                    self._records[name] = before
                else:
                    self._records.pop(name, None)

    def _write(self, state: State, writer: Writer) -> FileWrite:
        return FileWrite(
            state=state,
            principal=writer.principal,
            agent=writer.agent,
            at=self._clock.now_ms(),
            unreviewed=writer.unreviewed,
        )

    def _record(self, path: str, write: FileWrite) -> None:
        log.info("instructions changed", path=path, principal=write.principal, unreviewed=write.unreviewed)
        self._records[path] = write

    def _drop_records(self) -> None:
        """Drop those of files that are gone, then those of files that no prompt has, the reviewed and the oldest first:
        commands can make any number of files, so that another one would be taken for a person's."""
        watched = {str(path) for path in self.watched()}

        def importance(path: str) -> tuple[bool, bool, bool]:
            there = state_of(Path(path)) is not None
            return there and path in watched, there, self._records[path].unreviewed

        dropped = frozenset(sorted(self._records, key=importance)[:-MAX_RECORDS])
        self._records = {path: write for path, write in self._records.items() if path not in dropped}

    def forget(self, path: Path) -> None:
        """Take note that a person has written the file."""
        with self._lock:
            if (state := state_of(path)) is not None:
                self._set_known(str(path), state)
            if self._records.pop(str(path), None) is not None:
                self._save()

    def last_write(self, path: Path) -> FileWrite | None:
        """Return the agent's write that made the file what it is, as far as calls that run now tell; None if a person
        made it so."""
        state = state_of(path)
        found = self._records.get(str(path))
        if state is None:
            return None
        if found is not None and found.state in (state, BEING_WRITTEN):
            return found
        suspect = self._suspect(str(path), state)
        return self._write(state, suspect) if suspect is not None else None

    def is_unreviewed(self, path: Path) -> bool:
        """Return whether an agent that had read text from outside made the file what it is, and no person agreed."""
        return (found := self.last_write(path)) is not None and found.unreviewed

    def was_written_by_agent(self, path: Path) -> bool:
        """Return whether a tool or a command has ever written the file, however it was changed since."""
        return str(path) in self._records or self.last_write(path) is not None

    def _load(self) -> dict[str, FileWrite]:
        try:
            records = _RECORDS.validate_json(self._file.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValidationError) as error:
            log.error("authors of instructions cannot be read", path=str(self._file), error=str(error))
            return {}
        return {path: found for path, write in records.items() if (found := _after_crash(path, write)) is not None}

    def _save(self) -> None:
        if len(self._records) > MAX_RECORDS:
            self._drop_records()
        replace_file(self._file, _RECORDS.dump_json(self._records))


def _after_crash(path: str, write: FileWrite) -> FileWrite | None:
    """Return the record of a file: of one that the runtime was writing as it died, that of the file that is there."""
    if write.state != BEING_WRITTEN:
        return write
    state = state_of(Path(path))
    return write.model_copy(update={"state": state}) if state is not None else None
