"""Keeps the learnings: takes notes at once, writes them a moment later, and reads them when a session begins.

The files lie in the workspace, where commands can put anything in their place. What cannot be read or written is left
alone and said in the log; the turns never notice. A crash loses the notes of the last second.
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

from agent_common.telemetry import logger

from ..errors import ToolFailure
from ..ports import Clock, Correction, ToolContext, ToolResult
from ..workspace import SafePath
from .notes import CorrectionNote, FailureNote, entry_of, failure
from .notes_file import LARGEST, NotesFile
from .section import section

log = logger(__name__)

FOLDER = "learnings"
PAUSE = 0.5
"""Seconds in which notes gather before they are written."""
RETRY = 30.0
"""Seconds after which a file that could not be written is tried again."""
GOODBYE = 5.0
"""Seconds that the last write gets."""
MOST_WAITING = 500
"""Notes for one file that are not written yet; more are lost, and counted in the log."""
MOST_TOLD = 100
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


_Waiting = tuple[FailureNote | CorrectionNote, asyncio.Future[None] | None]
"""A note, and whoever waits until it is written."""


@dataclass(slots=True)
class _Book:
    """One file, and what is on its way into it."""

    place: SafePath
    head: str
    waiting: deque[_Waiting] = field(default_factory=deque[_Waiting])
    lost: int = 0
    trouble: str | None = None
    """What was wrong the last time, so that it is said once."""
    seen: tuple[int, ...] | None = None
    read: NotesFile = field(default_factory=NotesFile)
    """The file as it was when it was `seen`."""


class LearningService:
    """Fills ports.Learnings. `start` once, `close` behind the last turn."""

    def __init__(self, workspace: Path, clock: Clock, secrets: Sequence[str] = (), *, pause: float = PAUSE) -> None:
        """`secrets` are texts that never go into a note."""

        def book(name: str, head: str) -> _Book:
            return _Book(SafePath(workspace, workspace / FOLDER / name, f"{FOLDER}/{name}"), head)

        self._errors, self._corrections = book("errors.md", ERRORS_HEAD), book("corrections.md", CORRECTIONS_HEAD)
        self._clock, self._secrets, self._pause = clock, tuple(secrets), pause
        self._there, self._urgent = asyncio.Event(), asyncio.Event()
        self._closing = False
        self._read = (NotesFile(), NotesFile())
        self._told: dict[str, str] = {}
        """What sessions of a principal are told, as long as the files stay as they were read."""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="learnings")

    async def close(self) -> None:
        """Writes what is waiting, as far as that takes no longer than a few seconds."""
        self._closing = True
        self._there.set()
        self._urgent.set()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=GOODBYE)
            self._task.cancel()  # the disk hangs

    # -- notes

    def observe(self, tool: str, arguments: Mapping[str, Any], result: ToolResult, context: ToolContext) -> None:
        note = failure(tool, arguments, result, context, self._clock.now_ms())
        if note is not None:
            self._take(self._errors, note)

    def corrected(self, correction: Correction) -> None:
        self._take(self._corrections, CorrectionNote(correction, self._clock.now_ms()))

    async def learn(self, correction: Correction) -> None:
        written = asyncio.get_running_loop().create_future()
        if not self._take(self._corrections, CorrectionNote(correction, self._clock.now_ms()), written):
            why = self._corrections.trouble or "corrections cannot be taken just now; try again later"
            raise ToolFailure(why, kind="unavailable")
        self._urgent.set()
        await written

    # -- the prompt

    def section(self, principal: str) -> str:
        """What a session of that principal is told; empty when there is nothing. Reads the files that have changed."""
        read = (_look(self._corrections), _look(self._errors))
        if read != self._read:
            self._read, self._told = read, {}
        if principal not in self._told:
            if len(self._told) >= MOST_TOLD:
                self._told.clear()
            self._told[principal] = section(*read, principal)
        return self._told[principal]

    # -- the owner of the files

    def _take(
        self, book: _Book, note: FailureNote | CorrectionNote, written: asyncio.Future[None] | None = None
    ) -> bool:
        if len(book.waiting) >= MOST_WAITING or self._closing:
            book.lost += 1
            return False
        book.waiting.append((note, written))
        self._there.set()
        return True

    async def _run(self) -> None:
        while not self._closing:
            left = any(book.waiting for book in (self._errors, self._corrections))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._there.wait(), RETRY if left else None)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._urgent.wait(), self._pause)
            self._there.clear()
            self._urgent.clear()
            await self._write()
        await self._write()  # what came while the last ones were written

    async def _write(self) -> None:
        for book in (self._corrections, self._errors):
            if book.waiting:
                await self._write_book(book)

    async def _write_book(self, book: _Book) -> None:
        notes = list(book.waiting)
        try:
            await asyncio.to_thread(self._store, book, [note for note, _ in notes])
        except ToolFailure as error:
            if book.trouble != error.message:
                log.warning("learnings cannot be written", file=book.place.shown, reason=error.message)
            book.trouble = error.message
            _tell(notes, error)
            for _ in notes:  # those of whom nobody waits are tried again
                note, written = book.waiting.popleft()
                if written is None:
                    book.waiting.append((note, None))
        except Exception as error:  # a bug in here must not end the keeper, nor be met again with the same notes
            log.exception("learnings are lost", file=book.place.shown, notes=len(notes))
            _drop(book, notes)
            _tell(notes, ToolFailure(f"{book.place.shown} cannot be written: {type(error).__name__}"))
        else:
            if book.lost:
                log.warning("too many learnings at once", file=book.place.shown, lost=book.lost)
            book.trouble, book.lost = None, 0
            _drop(book, notes)
            _tell(notes, None)

    def _store(self, book: _Book, notes: Sequence[FailureNote | CorrectionNote]) -> None:
        """Puts the notes into the file. Raises ToolFailure."""
        data = _bytes(book.place)
        notebook = NotesFile.parse(book.head if data is None else _text(data))
        notebook.add(entry_of(note, self._secrets) for note in notes)
        notebook.trim()
        changed = notebook.render().encode(errors="surrogateescape")
        if len(changed) > LARGEST:
            raise _too_large(book.place)
        book.place.publish(changed)


class NoLearnings:
    """Takes no notes."""

    def observe(self, tool: str, arguments: Mapping[str, Any], result: ToolResult, context: ToolContext) -> None:
        return

    def corrected(self, correction: Correction) -> None:
        return

    async def learn(self, correction: Correction) -> None:
        raise ToolFailure("no corrections are kept here", kind="unavailable")


def _look(book: _Book) -> NotesFile:
    """The file as it is now; an empty one where it is not there, or is no file of notes."""
    try:
        with book.place.open() as file:
            about = os.fstat(file.fileno())
            signature = (about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
            if signature != book.seen:
                data = file.read(LARGEST + 1) if about.st_size <= LARGEST else b""
                book.read = NotesFile.parse(_text(data)) if len(data) <= LARGEST else NotesFile()
                book.seen = signature
    except ToolFailure:
        book.read, book.seen = NotesFile(), None
    return book.read


def _bytes(place: SafePath) -> bytes | None:
    """The file as it is; none when there is none. Raises ToolFailure for what is not a file of notes."""
    try:
        with place.open() as file:
            data = file.read(LARGEST + 1)
    except ToolFailure as failure:
        if isinstance(failure.__cause__, FileNotFoundError):
            return None
        raise
    if len(data) > LARGEST:
        raise _too_large(place)
    return data


def _text(data: bytes) -> str:
    """Any bytes as a text that gives the same bytes again."""
    return data.decode(errors="surrogateescape")


def _too_large(place: SafePath) -> ToolFailure:
    return ToolFailure(f"{place.shown} would be larger than {LARGEST // 1024} KiB: shorten it, or move it away")


def _drop(book: _Book, notes: Sequence[_Waiting]) -> None:
    for _ in notes:
        book.waiting.popleft()


def _tell(notes: Sequence[_Waiting], error: ToolFailure | None) -> None:
    for _, written in notes:
        if written is None or written.done():
            continue
        if error is None:
            written.set_result(None)
        else:
            written.set_exception(error)
