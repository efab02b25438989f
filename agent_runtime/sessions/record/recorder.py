"""Saves one turn while it happens: every chunk is on disk at most 50 ms or 64 KiB later, whoever is watching."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, replace
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
    """A part as it was when a flush began: the writer thread never looks at what the loop goes on changing."""

    part: Part
    data: dict[str, Any]
    added: str
    """Text that is in `data` and not yet in the row."""

    @classmethod
    def from_part(cls, part: Part) -> _Change:
        added = part.flush_pending()
        return cls(part, dict(part.data), added)

    @property
    def grows(self) -> bool:
        return self.data.get("state") == "streaming" and "text" in self.data


class Recorder:
    """One assistant message. `take` every chunk, then `save` what ends the turn. The row appears with the first flush.

    `begun` are the parts of a message that is gone on with.
    """

    def __init__(
        self, database: Database, ids: Ids, clock: Clock, row: MessageRow, begun: MessageParts | None = None
    ) -> None:
        self.message = begun or MessageParts(ids.new)
        self._database, self._clock, self._row = database, clock, row
        self._growing: dict[str, StreamingText] = {}
        """By part id; touched by the writer thread only."""
        self._dirty: dict[int, Part] = {}
        self._characters = 0
        self._timer: asyncio.TimerHandle | None = None
        self._pending_flush: asyncio.Future[None] | None = None
        """The flush that is on its way."""
        self._counted_usage = Usage.model_validate(self.message.metadata.get("usage", {}))
        """What the session's rollups already count of this message."""
        self._saved_metadata: dict[str, Any] | None = None
        """The metadata that is known to be in the message's row."""

    def record(self, chunk: c.Chunk) -> None:
        """Remembers the chunk and sees to it that it is saved in time."""
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
        """Hands what has changed to the writer. At most one flush is on its way: a slow disk makes them larger."""
        self._cancel_timer()
        if self._pending_flush is not None:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_SECONDS, self.flush)
            return
        self._send()

    async def save(
        self, also_write: Callable[[sqlite3.Connection, int], None] | None = None, *, durable: bool = True
    ) -> None:
        """Saves all that was taken and, in the same transaction, whatever hangs on it: returns once that would survive
        a power cut, or without `durable` a crash. Raises StoreError; then nothing was saved, and another `save` may
        try again."""
        self._cancel_timer()
        if self._pending_flush is not None:
            await asyncio.wait([self._pending_flush])
        booked, metadata = self._counted_usage, self._metadata()
        unit, now = self._unit(metadata, whole=True), self._clock.now_ms()

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

    def close(self) -> None:
        """Hands over what is left, without waiting: for a turn that the next life will take up."""
        self._cancel_timer()
        if self._dirty:
            self._send()

    def current_parts(self) -> list[dict[str, Any]]:
        """The parts as they are now, in the SDK's JSON shape."""
        return [{**part.data, "text": part.text} if part.pending else part.data for part in self.message.parts]

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _send(self) -> None:
        booked, metadata = self._counted_usage, self._metadata()
        self._pending_flush = flight = self._database.write(
            self._unit(metadata, whole=metadata != self._saved_metadata)
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
        """After a failed write everything counts as unsaved; the next one writes all of it."""
        self._counted_usage = booked
        self._growing.clear()
        self._dirty = {part.index: part for part in self.message.parts}

    def _metadata(self) -> dict[str, Any]:
        return {**self.message.metadata, "schema_version": 1}

    def _unit(self, metadata: dict[str, Any], *, whole: bool) -> Callable[[sqlite3.Connection], None]:
        """Most flushes only make a text longer. They leave the message's own row alone, which would cost one more page
        in the log; `whole` ones write it."""
        changes = [_Change.from_part(part) for part in self._dirty.values()]
        self._dirty.clear()
        self._characters = 0
        now = self._clock.now_ms()
        total = Usage.model_validate(metadata.get("usage", {}))
        spent, self._counted_usage = total.minus(self._counted_usage), total

        def save(connection: sqlite3.Connection) -> None:
            if whole:
                rows.upsert_message(connection, replace(self._row, metadata=metadata, updated_at=now))
            for change in changes:
                self._save_part(connection, change, now)
            if spent.total:
                rows.add_usage(connection, self._row.session_id, spent, now)

        return save

    def _save_part(self, connection: sqlite3.Connection, change: _Change, now: int) -> None:
        part, data = change.part, change.data
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
