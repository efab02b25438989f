"""Keep the learnings: queue notes at once, write them a moment later, and read them when a session begins.

The files are in the workspace, where commands can put anything in their place. A file that cannot be read or written is
left alone and named in the log, and no turn fails for it. A crash loses the notes of the last second.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_common.redaction import Redactor
from agent_common.telemetry import logger

from ..errors import ToolFailure
from ..ports import Clock, Correction, ToolContext, ToolResult
from ..workspace import UNREVIEWED, PromptFileAuthors, SafePath
from .notes import CorrectionNote, FailureNote, failure_note, to_entry
from .notes_file import MAX_FILE_BYTES, NotesFile
from .section import render_section

log = logger(__name__)

FOLDER = "learnings"
GATHER_SECONDS = 0.5
"""Seconds in which notes gather before they are written."""
RETRY_SECONDS = 30.0
"""Seconds after which a failed write is tried again."""
CLOSE_SECONDS = 5.0
"""Seconds that `close` waits for the last write."""
MAX_WAITING = 500
"""Notes that wait for one file; further ones are lost, and the log counts them."""
MAX_SECTIONS = 100
"""Principals whose section is kept in memory."""
ERRORS_HEAD = """\
# Errors

What tools answered when they failed. The agent reads this when a session begins. Change, add or delete what you like:
a deleted note comes back when it happens again, and a changed text is kept.
"""
CORRECTIONS_HEAD = """\
# Corrections

What people wanted otherwise. The agent reads this when a session begins. Change, add or delete what you like; a plain
list item will do.
"""


_PendingNote = tuple[FailureNote | CorrectionNote, asyncio.Future[None] | None]
"""A note, and the future that is resolved once it is written, if a caller waits."""


@dataclass(slots=True)
class _NotesQueue:
    """One file, and the notes that wait to be written to it."""

    safe_path: SafePath
    head: str
    waiting: deque[_PendingNote] = field(default_factory=deque[_PendingNote])
    lost: int = 0
    last_error: str | None = None
    """The last write's error, so that it is logged once."""
    signature: tuple[int, ...] | None = None
    content: NotesFile = field(default_factory=NotesFile)
    """The file's content when it had this `signature`."""


@dataclass(frozen=True, slots=True)
class _ReadFile:
    """A file as a prompt may show it."""

    content: NotesFile
    by_agent: bool = False
    """Whether a tool or a command has written it."""
    left_out: str = ""
    """Why nothing of it is shown; empty: it is."""


class LearningService:
    """Implements ports.Learnings. Call `start` once, and `close` after the last turn."""

    def __init__(
        self,
        workspace: Path,
        clock: Clock,
        redactor: Redactor | None = None,
        *,
        pause: float = GATHER_SECONDS,
        authors: PromptFileAuthors | None = None,
    ) -> None:
        """`redactor` removes secrets from the notes; `authors` knows whether an agent has written a file."""

        def queue(name: str, head: str) -> _NotesQueue:
            return _NotesQueue(SafePath(workspace, workspace / FOLDER / name, f"{FOLDER}/{name}"), head)

        self._errors = queue("errors.md", ERRORS_HEAD)
        self._corrections = queue("corrections.md", CORRECTIONS_HEAD)
        self._clock = clock
        self._redactor = redactor or Redactor()
        self._pause = pause
        self._has_notes = asyncio.Event()
        self._urgent = asyncio.Event()
        self._closing = False
        self._files = (_ReadFile(NotesFile()), _ReadFile(NotesFile()))
        self._authors = authors
        self._sections: dict[str, str] = {}
        """Principal -> its section, valid until one of the files changes."""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="learnings")

    async def close(self) -> None:
        """Write the waiting notes, giving up after CLOSE_SECONDS."""
        self._closing = True
        self._has_notes.set()
        self._urgent.set()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=CLOSE_SECONDS)
            self._task.cancel()  # has an effect only if the disk hangs

    # -- notes

    def observe(self, tool: str, arguments: Mapping[str, Any], result: ToolResult, context: ToolContext) -> None:
        note = failure_note(tool, arguments, result, context, self._clock.now_ms())
        if note is not None:
            self._enqueue(self._errors, note)

    def record_correction(self, correction: Correction) -> None:
        self._enqueue(self._corrections, CorrectionNote(correction, self._clock.now_ms()))

    async def save_correction(self, correction: Correction) -> None:
        written = asyncio.get_running_loop().create_future()
        if not self._enqueue(self._corrections, CorrectionNote(correction, self._clock.now_ms()), written):
            why = self._corrections.last_error or "corrections cannot be taken just now; try again later"
            raise ToolFailure(why, kind="unavailable")
        self._urgent.set()
        await written

    # -- the prompt

    def render_section(self, principal: str) -> str:
        """Return the prompt's section for a principal; empty if there are no notes. Reads changed files."""
        if (read := (self._read(self._corrections), self._read(self._errors))) != self._files:
            self._files = read
            self._sections = {}
        if principal not in self._sections:
            if len(self._sections) >= MAX_SECTIONS:
                self._sections.clear()
            corrections, errors = read
            by_agents = (corrections.by_agent, errors.by_agent)
            section = render_section(corrections.content, errors.content, principal, by_agents=by_agents)
            lines = (section, corrections.left_out, errors.left_out)
            self._sections[principal] = "\n".join(line for line in lines if line)
        return self._sections[principal]

    def _read(self, queue: _NotesQueue) -> _ReadFile:
        """Read a file if it has changed, and look who wrote it."""
        content = _read_if_changed(queue)
        path = queue.safe_path.path
        if self._authors is None:
            return _ReadFile(content)
        if self._authors.is_unreviewed(path):
            return _ReadFile(NotesFile(), left_out=UNREVIEWED.format(name=queue.safe_path.shown))
        return _ReadFile(content, self._authors.was_written_by_agent(path))

    # -- the task that writes the files

    def _enqueue(
        self, queue: _NotesQueue, note: FailureNote | CorrectionNote, written: asyncio.Future[None] | None = None
    ) -> bool:
        if len(queue.waiting) >= MAX_WAITING or self._closing:
            queue.lost += 1
            return False
        queue.waiting.append((note, written))
        self._has_notes.set()
        return True

    async def _run(self) -> None:
        while not self._closing:
            left = any(queue.waiting for queue in (self._errors, self._corrections))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._has_notes.wait(), RETRY_SECONDS if left else None)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._urgent.wait(), self._pause)
            self._has_notes.clear()
            self._urgent.clear()
            await self._write()
        await self._write()  # the notes that came during the last write

    async def _write(self) -> None:
        for queue in (self._corrections, self._errors):
            if queue.waiting:
                await self._write_queue(queue)

    async def _write_queue(self, queue: _NotesQueue) -> None:
        notes = list(queue.waiting)
        try:
            await asyncio.to_thread(self._store_notes, queue, [note for note, _ in notes])
        except ToolFailure as error:
            if queue.last_error != error.message:
                log.warning("learnings cannot be written", file=queue.safe_path.shown, reason=error.message)
            queue.last_error = error.message
            _resolve_waiters(notes, error)
            for _ in notes:  # notes without a waiting caller are tried again
                note, written = queue.waiting.popleft()
                if written is None:
                    queue.waiting.append((note, None))
        except Exception as error:  # a bug here must neither end the task nor repeat with the same notes
            log.exception("learnings are lost", file=queue.safe_path.shown, notes=len(notes))
            _drop_written(queue, notes)
            _resolve_waiters(notes, ToolFailure(f"{queue.safe_path.shown} cannot be written: {type(error).__name__}"))
        else:
            if queue.lost:
                log.warning("too many learnings at once", file=queue.safe_path.shown, lost=queue.lost)
            queue.last_error = None
            queue.lost = 0
            _drop_written(queue, notes)
            _resolve_waiters(notes, None)

    def _store_notes(self, queue: _NotesQueue, notes: Sequence[FailureNote | CorrectionNote]) -> None:
        """Add the notes to the file. Raises ToolFailure."""
        data = _read_bytes(queue.safe_path)
        notes_file = NotesFile.parse(queue.head if data is None else _decode(data))
        notes_file.add(to_entry(note, self._redactor) for note in notes)
        notes_file.trim()
        changed = notes_file.render().encode(errors="surrogateescape")
        if len(changed) > MAX_FILE_BYTES:
            raise _too_large_error(queue.safe_path)
        with self._authors.own_write(queue.safe_path.path) if self._authors is not None else contextlib.nullcontext():
            queue.safe_path.write_atomically(changed)


class NoLearnings:
    """Implements ports.Learnings without keeping anything."""

    def observe(self, tool: str, arguments: Mapping[str, Any], result: ToolResult, context: ToolContext) -> None:
        return

    def record_correction(self, correction: Correction) -> None:
        return

    async def save_correction(self, correction: Correction) -> None:
        raise ToolFailure("no corrections are kept here", kind="unavailable")


def _read_if_changed(queue: _NotesQueue) -> NotesFile:
    """Return the file's current content; empty if the file is missing or cannot be a notes file."""
    try:
        with queue.safe_path.open() as file:
            about = os.fstat(file.fileno())
            signature = (about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
            if signature != queue.signature:
                data = file.read(MAX_FILE_BYTES + 1) if about.st_size <= MAX_FILE_BYTES else b""
                queue.content = NotesFile.parse(_decode(data)) if len(data) <= MAX_FILE_BYTES else NotesFile()
                queue.signature = signature
    except ToolFailure:
        queue.content = NotesFile()
        queue.signature = None
    return queue.content


def _read_bytes(safe_path: SafePath) -> bytes | None:
    """Return the file's bytes; None if it is missing. Raises ToolFailure if it cannot be a notes file."""
    try:
        with safe_path.open() as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except ToolFailure as failure:
        if isinstance(failure.__cause__, FileNotFoundError):
            return None
        raise
    if len(data) > MAX_FILE_BYTES:
        raise _too_large_error(safe_path)
    return data


def _decode(data: bytes) -> str:
    """Decode any bytes to a text that encodes to the same bytes again."""
    return data.decode(errors="surrogateescape")


def _too_large_error(safe_path: SafePath) -> ToolFailure:
    return ToolFailure(
        f"{safe_path.shown} would be larger than {MAX_FILE_BYTES // 1024} KiB: shorten it, or move it away"
    )


def _drop_written(queue: _NotesQueue, notes: Sequence[_PendingNote]) -> None:
    for _ in notes:
        queue.waiting.popleft()


def _resolve_waiters(notes: Sequence[_PendingNote], error: ToolFailure | None) -> None:
    for _, written in notes:
        if written is None or written.done():
            continue
        if error is None:
            written.set_result(None)
        else:
            written.set_exception(error)
