"""Write the daily log: one line for each turn that has ended, in `memory/DAY.md` of the turn's principal.

    - 09:14 · `main` · complete · asked: `What is in the report?` · answered: `Three tables and a note.`

Lines gather for a moment and are added in one write, so that no turn waits. Commands can put anything in the place of
the operator's file; lines that cannot be written are lost, and the server's log says so once.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections import deque
from collections.abc import Awaitable, Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from agent_common.line_text import one_line
from agent_common.redaction import Redactor
from agent_common.telemetry import logger

from ..errors import ToolFailure
from ..ports import Clock, DailyLogEntry
from ..workspace import (
    OPERATOR,
    PRINCIPALS_FOLDER,
    Home,
    PathLocks,
    SafePath,
    make_personal_folder,
    personal_folder,
    resolve_for_principal,
)
from .notes_file import code_span

log = logger(__name__)

FOLDER = "memory"
MAX_FILE_BYTES = 1024 * 1024
"""Bytes of a day's file."""
MAX_WAITING = 1000
"""Lines that wait to be written; further ones are lost, and the server's log counts them."""
RESERVE_BYTES = 64 * 1024
"""Bytes that are reserved at once: measuring a folder runs two programs, which cost more than a turn does."""
GATHER_SECONDS = 0.5
"""Seconds in which lines gather before they are written."""
TIDY_SECONDS = 3600.0
"""Seconds between two checks whether a new day has begun."""
CLOSE_SECONDS = 5.0
"""Seconds that `close` waits for the last write."""
MAX_TEXT_LENGTH = 160
MAX_NAME_LENGTH = 64
"""Characters of a text and of a name that a line shows."""
MAX_INSPECTED = 2000
"""Characters of a text that are searched for secrets: more than a line shows, since many may be blank."""
MAX_ENTRIES = 10_000
"""Entries of a folder that are searched for old files."""
_DAY = re.compile(r"\d{4}-\d\d-\d\d")

RequireSpace = Callable[[SafePath, int], Awaitable[None]]


class DailyLogWriter:
    """Implements ports.Diary. Call `start` once, and `close` after the last turn."""

    def __init__(
        self,
        home: Home,
        clock: Clock,
        locks: PathLocks,
        require_space: RequireSpace,
        *,
        days: int,
        redactor: Redactor | None = None,
        pause: float = GATHER_SECONDS,
    ) -> None:
        """`days` is how long a day's file is kept; 0 writes no log and deletes nothing. `require_space` raises
        ToolFailure if there is no space. `redactor` removes secrets from the lines."""
        self._home = home
        self._clock = clock
        self._locks = locks
        self._require_space = require_space
        self._days = days
        self._redactor = redactor or Redactor()
        self._pause = pause
        self._waiting: deque[tuple[int, DailyLogEntry]] = deque()
        self._lost = 0
        self._reserved: dict[Path, int] = {}
        """Folder -> bytes that are reserved there and not written yet; only the folders written to last."""
        self._has_entries = asyncio.Event()
        self._closing = asyncio.Event()
        self._tidied_on: date | None = None
        self._last_error: str | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._days:
            self._task = asyncio.create_task(self._run(), name="daily log")

    async def close(self) -> None:
        """Write the waiting lines, giving up after CLOSE_SECONDS."""
        self._closing.set()
        self._has_entries.set()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=CLOSE_SECONDS)
            self._task.cancel()  # has an effect only if the disk hangs

    def append(self, entry: DailyLogEntry) -> None:
        if self._days == 0:
            return
        if len(self._waiting) >= MAX_WAITING or self._closing.is_set():
            self._lost += 1
            return
        self._waiting.append((self._clock.now_ms(), entry))
        self._has_entries.set()

    # -- the task that writes the files

    async def _run(self) -> None:
        while not self._closing.is_set():
            await self._remove_old_files()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._has_entries.wait(), TIDY_SECONDS)
            if self._waiting:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._closing.wait(), self._pause)
            self._has_entries.clear()
            await self._write()
        await self._write()  # the lines that came during the last write

    async def _write(self) -> None:
        files: dict[tuple[str, date], list[bytes]] = {}
        while self._waiting:
            at_ms, entry = self._waiting.popleft()
            key = (entry.principal, _day(at_ms))
            files.setdefault(key, []).append(format_line(entry, at_ms, self._redactor))
        for (principal, day), lines in files.items():
            await self._write_lines(principal, day, b"".join(lines))
        if self._lost:
            log.warning("too many turns for the daily log at once", lost=self._lost)
            self._lost = 0

    async def _write_lines(self, principal: str, day: date, lines: bytes) -> None:
        safe_path = resolve_for_principal(self._home, principal, f"{FOLDER}/{day}.md")
        try:
            await self._reserve_space(safe_path, len(lines))
            if not await asyncio.to_thread(self._append, principal, safe_path, day, lines):
                raise ToolFailure(f"the day's file would have more than {MAX_FILE_BYTES // 1024} KiB")
        except ToolFailure as failure:
            if self._last_error != failure.message:
                log.warning("the daily log cannot be written", file=safe_path.shown, reason=failure.message)
            self._last_error = failure.message
        except Exception:  # a bug here must not end the writing task
            log.exception("lines of the daily log are lost", file=safe_path.shown)
        else:
            self._last_error = None

    async def _reserve_space(self, safe_path: SafePath, size: int) -> None:
        """Reserve space for some bytes. Raises ToolFailure if there is none."""
        left = self._reserved.pop(safe_path.root, 0)
        if left < size:
            left = max(size, RESERVE_BYTES)
            try:
                await self._require_space(safe_path, left)
            except ToolFailure:  # there may still be space for these lines alone
                left = size
                await self._require_space(safe_path, left)
        if len(self._reserved) >= MAX_WAITING:
            self._reserved.clear()
        self._reserved[safe_path.root] = left - size

    def _append(self, principal: str, safe_path: SafePath, day: date, lines: bytes) -> bool:
        make_personal_folder(self._home, principal)
        with self._locks.thread_lock(safe_path.path):  # else a tool that edits the file would lose them
            return safe_path.append(lines, head=f"# {day}\n\n".encode(), max_bytes=MAX_FILE_BYTES)

    async def _remove_old_files(self) -> None:
        """Delete the files that are too old, once a day."""
        today = _day(self._clock.now_ms())
        if today != self._tidied_on:
            self._tidied_on = today
            try:
                await asyncio.to_thread(remove_old, self._home, today - timedelta(days=self._days))
            except Exception:  # tried again on the next day
                log.exception("old daily logs were not removed")


def format_line(entry: DailyLogEntry, at_ms: int, redactor: Redactor) -> bytes:
    """Return an entry as exactly one line of a day's file."""
    when = datetime.fromtimestamp(at_ms / 1000, tz=UTC)
    # Names are not redacted: the id of a task may look like a secret.
    parts = [f"{when:%H:%M}", code_span(_clip_line(entry.who, MAX_NAME_LENGTH) or "-"), entry.status]
    for name, text in (("asked", entry.asked), ("answered", entry.answered)):
        if shown := _clip_line(redactor.redact_note(text[:MAX_INSPECTED]), MAX_TEXT_LENGTH):
            parts.append(f"{name}: {code_span(shown)}")
    return f"- {' · '.join(parts)}\n".encode(errors="replace")


def remove_old(home: Home, last: date) -> None:
    """Delete all principals' files of that day and of the days before it."""
    roots = [personal_folder(home, OPERATOR)]
    with contextlib.suppress(FileNotFoundError), os.scandir(home.data_dir / PRINCIPALS_FOLDER) as people:
        roots += [Path(one.path) for one in people]
    for root in roots:
        folder = SafePath(root, root / FOLDER, FOLDER)
        with contextlib.suppress(ToolFailure):
            for name, _ in folder.entries(MAX_ENTRIES)[0]:
                day = _parse_day(name)
                if day is not None and day <= last:
                    with contextlib.suppress(ToolFailure):
                        SafePath(root, folder.path / name, name).remove(durable=False)


def _clip_line(text: str, limit: int) -> str:
    """Return the beginning of a text as one line of visible characters."""
    line = one_line(text[: limit * 4], MAX_INSPECTED * 20)
    if len(line) <= limit and len(text) > limit * 4:  # it is mostly blank
        line = one_line(text[: MAX_INSPECTED * 2], MAX_INSPECTED * 20)
    return line if len(line) <= limit else f"{line[: limit - 1].rstrip()}…"


def _day(at_ms: int) -> date:
    return datetime.fromtimestamp(at_ms / 1000, tz=UTC).date()


def _parse_day(name: str) -> date | None:
    stem = name.removesuffix(".md")
    if stem == name or not _DAY.fullmatch(stem):
        return None
    try:
        return date.fromisoformat(stem)
    except ValueError:
        return None
