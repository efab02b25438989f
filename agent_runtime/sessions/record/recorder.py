"""Save a turn while it runs: every chunk is on disk after at most 50 ms or 64 KiB, with or without readers."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agent_common.protocol import Usage
from agent_common.protocol import chunks as c
from agent_common.telemetry import logger

from ...ports import Clock
from ...store import Database
from ..store import rows
from ..store.ids import Ids
from ..store.rows import MessageRow
from ..store.streaming_text import StreamingText
from .parts import MessageParts, Part

log = logger(__name__)
FLUSH_SECONDS = 0.05
FLUSH_CHARACTERS = 64 * 1024


@dataclass(frozen=True, slots=True)
class _Change:
    """A copy of a part as of the start of a flush, because the writer's thread must not see later changes."""

    part: Part
    added: str
    """Text that is in `data` but not yet in the row."""
    data: dict[str, Any]

    @property
    def grows(self) -> bool:
        return self.data.get("state") == "streaming" and "text" in self.data


class Recorder:
    """Records one assistant message: `record` every chunk, then `save` the end of the turn. The row is created by the
    first flush.

    `begun` holds the parts of a message that is continued.
    """

    def __init__(
        self, database: Database, ids: Ids, clock: Clock, row: MessageRow, begun: MessageParts | None = None
    ) -> None:
        self.message = begun or MessageParts(ids.new)
        self._database = database
        self._clock = clock
        self._row = row
        self._growing: dict[str, StreamingText] = {}
        """Texts that grow, by part id; used by the writer's thread only."""
        self._dirty: dict[int, Part] = {}
        self._characters = 0
        self._timer: asyncio.TimerHandle | None = None
        self._pending_flush: asyncio.Future[None] | None = None
        """The flush that is under way."""
        self._counted_usage = Usage.model_validate(self.message.metadata.get("usage", {}))
        """Usage of this message that the session's totals already include."""
        self._saved_metadata: dict[str, Any] | None = None
        """Metadata that the message's row is known to have."""

    def record(self, chunk: c.Chunk) -> None:
        """Apply the chunk and schedule a flush."""
        part = self.message.apply(chunk)
        if part is not None:
            self._dirty[part.index] = part
        if isinstance(chunk, (c.TextDelta, c.ReasoningDelta)):
            self._characters += len(chunk.delta)
        if self._characters >= FLUSH_CHARACTERS:
            self.flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_SECONDS, self.flush)

    def flush(self) -> None:
        """Send all changes to the writer. Only one flush is under way at a time, so a slow disk makes flushes
        larger."""
        self._cancel_timer()
        if self._pending_flush is not None:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_SECONDS, self.flush)
            return
        self._send()

    async def save(
        self, also_write: Callable[[sqlite3.Connection, int], None] | None = None, *, durable: bool = True
    ) -> None:
        """Save all recorded chunks, and with `also_write` more rows in the same transaction.

        Returns once that would survive a power failure, or without `durable` a crash. Raises StoreError; nothing was
        saved then, and `save` may be called again.
        """
        self._cancel_timer()
        if self._pending_flush is not None:
            await asyncio.wait([self._pending_flush])
        booked = self._counted_usage
        metadata = self._metadata()
        now = self._clock.now_ms()
        unit = self._unit(metadata, now, whole=True)

        def whole(connection: sqlite3.Connection) -> None:
            unit(connection)
            if also_write is not None:
                also_write(connection, now)

        try:
            await self._database.write(whole, durable=durable)
        except Exception:
            self._unsaved(booked)
            raise
        self._saved_metadata = metadata

    async def discard(self) -> Usage:
        """Give up what is not saved, and return the usage in it that the session's totals lack."""
        self._cancel_timer()
        if self._pending_flush is not None:
            await asyncio.wait([self._pending_flush])
        self._dirty.clear()
        return Usage.model_validate(self.message.metadata.get("usage", {})).minus(self._counted_usage)

    def close(self) -> None:
        """Send the remaining changes without waiting, for a turn that the next process will continue."""
        self._cancel_timer()
        if self._dirty:
            self._send()

    def current_parts(self) -> list[dict[str, Any]]:
        """Return the parts as they are now, in the SDK's JSON shape."""
        return [{**part.data, "text": part.text} if part.pending else part.data for part in self.message.parts]

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _send(self) -> None:
        booked = self._counted_usage
        metadata = self._metadata()
        self._pending_flush = flight = self._database.write(
            self._unit(metadata, self._clock.now_ms(), whole=metadata != self._saved_metadata)
        )
        flight.add_done_callback(lambda flushed: self._on_flushed(flushed, booked, metadata))

    def _on_flushed(self, flushed: asyncio.Future[None], booked: Usage, metadata: dict[str, Any]) -> None:
        if self._pending_flush is flushed:
            self._pending_flush = None
        if flushed.cancelled():
            return
        if (error := flushed.exception()) is not None:
            log.warning("a flush failed", message_id=self._row.id, error=str(error))
            self._unsaved(booked)
        else:
            self._saved_metadata = metadata

    def _unsaved(self, booked: Usage) -> None:
        """Mark everything as unsaved after a failed write, so that the next write includes all of it."""
        self._counted_usage = booked
        self._growing.clear()
        self._dirty = {part.index: part for part in self.message.parts}

    def _metadata(self) -> dict[str, Any]:
        return {**self.message.metadata, "schema_version": 1}

    def _unit(self, metadata: dict[str, Any], now: int, *, whole: bool) -> Callable[[sqlite3.Connection], None]:
        """Return the write of all changes. Only a `whole` one writes the message's row: most flushes just extend a
        text, and the row would cost one more page in the log."""
        changes = [_Change(part, part.flush_pending(), dict(part.data)) for part in self._dirty.values()]
        self._dirty.clear()
        self._characters = 0
        total = Usage.model_validate(metadata.get("usage", {}))
        spent = total.minus(self._counted_usage)
        self._counted_usage = total

        ran = False

        def save(connection: sqlite3.Connection) -> None:
            nonlocal ran
            if ran:  # rolled back: the rows have lost what they had grown by
                self._growing.clear()
            ran = True
            if whole:
                row = self._row
                whole_row = MessageRow(row.id, row.session_id, row.role, metadata, row.created_at, now)
                rows.upsert_message(connection, whole_row)
            for change in changes:
                self._save_part(connection, change, now)
            if spent.total:
                rows.add_usage(connection, self._row.session_id, spent, now)

        return save

    def _save_part(self, connection: sqlite3.Connection, change: _Change, now: int) -> None:
        part = change.part
        data = change.data
        growing = self._growing.get(part.id)
        if not change.grows:
            self._growing.pop(part.id, None)
            rows.upsert_part(connection, self._part_row(change, now))
        elif growing is None:
            self._growing[part.id] = StreamingText.insert(connection, self._part_row(change, now).columns(), data)
        else:
            growing.append(connection, change.added, data, now)

    def _part_row(self, change: _Change, now: int) -> rows.PartRow:
        part = change.part
        return rows.PartRow(part.id, self._row.id, self._row.session_id, part.index, change.data, now)
