"""Write the end of a turn and all that depends on it in one transaction, with retries while the disk refuses."""

from __future__ import annotations

import asyncio
import sqlite3
from dataclasses import dataclass, field

from agent_common.protocol import Usage
from agent_common.protocol import chunks as c
from agent_common.telemetry import logger

from ...errors import StoreError
from ...ports import Clock
from ...sessions import Recorder, history, interrupt_turn, rows
from ...store import Database
from ..core.steering import SessionQueue
from ..core.turn_state import Turn, TurnHook
from ..limits.outcome import HOST_DEADLINE, INTERNAL_FAILURE, STORE_FAILURE, TurnOutcome

log = logger(__name__)
RETRY_SECONDS = (0.5, 1.0, 2.0, 4.0)
"""Seconds between attempts while the database refuses a write."""
LATE_RETRY_SECONDS = 5.0
"""Seconds between attempts after the callers of a turn were informed that it failed."""


@dataclass(frozen=True, slots=True)
class TurnFinalizer:
    """Records how turns end. After a crash in here no caller knows of the end yet, and the next start ends the turn
    from its rows."""

    database: Database
    clock: Clock
    _late_tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])
    """Tasks that keep trying to record an end."""

    async def save_with_retries(self, turn: Turn, recorder: Recorder, hook: TurnHook) -> None:
        """Record the reply, and with the hook the end of the turn or its pause. Retries, so that a database that
        refuses for a moment, for a backup or a full disk, does not change how a turn ends. Raises StoreError after the
        last attempt."""
        if turn.start.write is not None:
            await asyncio.wait([turn.start.write])
        for wait in (*RETRY_SECONDS, None):
            try:
                await recorder.save(lambda connection, now: hook(connection, turn, now))
                return
            except StoreError as error:
                if wait is None or turn.end.outcome in (INTERNAL_FAILURE, STORE_FAILURE):
                    raise
                log.warning("the end of a turn could not be recorded yet", message_id=turn.message_id, error=str(error))
                await asyncio.sleep(wait)

    async def finalize_cancelled(self, turn: Turn, _queue: SessionQueue) -> None:
        """Record that a queued turn was cancelled; it stays in the session as a hidden row."""
        if turn.end.stop_reason == "host_deadline":
            turn.end.outcome = HOST_DEADLINE
        else:
            turn.end.outcome = TurnOutcome(
                "cancelled", "abort", "cancelled", "the turn was cancelled before it started"
            )

        def unit(connection: sqlite3.Connection) -> None:
            now = self.clock.now_ms()
            rows.cancel_queued(connection, turn.message_id, now)
            record_end(connection, turn, now)

        try:
            await self.database.write(unit, durable=True)
        except BaseException:
            turn.end.outcome = None
            raise
        turn.stream.publish(c.Abort(reason=turn.end.outcome.error))
        turn.stream.close()

    async def finalize_unreadable(self, turn: Turn) -> None:
        """End a turn whose record cannot be read, from its rows alone."""

        def unit(connection: sqlite3.Connection) -> None:
            row = history.turn(connection, turn.message_id)
            if row is not None:
                now = self.clock.now_ms()
                turn.end.outcome = TurnOutcome(**interrupt_turn(connection, row, now))
                turn.run_end_hooks(connection, now)

        await self.database.write(unit, durable=True)
        outcome = turn.end.outcome or INTERNAL_FAILURE
        turn.stream.publish(c.ErrorChunk(errorText=outcome.error or ""))
        turn.stream.publish(c.Finish(finishReason="error", messageMetadata={"outcome": outcome.json()}))

    async def finalize_from_rows(self, turn: Turn, recorder: Recorder) -> None:
        """End a turn whose new parts cannot be recorded from what the rows hold of it. Raises StoreError after the last
        attempt."""
        spent = await recorder.discard()

        def unit(connection: sqlite3.Connection) -> None:
            record_end_from_rows(connection, turn, spent, self.clock.now_ms())

        for wait in (*RETRY_SECONDS, None):
            try:
                await self.database.write(unit, durable=True)
                return
            except StoreError:
                if wait is None:
                    raise
                await asyncio.sleep(wait)

    def finalize_later(self, turn: Turn, recorder: Recorder, *, with_parts: bool) -> None:
        """Keep trying in the background to record an end that callers already know of. After a crash the next start
        repairs it."""
        late = asyncio.create_task(self._finalize_later(turn, recorder, with_parts), name=f"late end {turn.message_id}")
        self._late_tasks.add(late)
        late.add_done_callback(self._late_tasks.discard)

    async def _finalize_later(self, turn: Turn, recorder: Recorder, with_parts: bool) -> None:
        while True:
            await asyncio.sleep(LATE_RETRY_SECONDS)
            try:
                if with_parts:
                    await recorder.save(lambda connection, now: record_end(connection, turn, now))
                else:
                    await self.finalize_from_rows(turn, recorder)
                return
            except StoreError:
                continue
            except Exception:
                log.exception("the end of a turn cannot be recorded", message_id=turn.message_id)
                with_parts = False

    async def close(self) -> None:
        """Stop the background attempts."""
        for late in self._late_tasks:
            late.cancel()
        await asyncio.gather(*self._late_tasks, return_exceptions=True)


def record_end(connection: sqlite3.Connection, turn: Turn, now: int) -> None:
    """Write the end of the turn, and what its hooks add."""
    if turn.start.unrecorded is not None:  # the start could not be written either
        turn.start.unrecorded(connection)
    rows.end_turn(connection, turn.message_id, (turn.end.outcome or INTERNAL_FAILURE).json(), now)
    save_session_model(connection, turn, now)
    turn.run_end_hooks(connection, now)


def record_end_from_rows(connection: sqlite3.Connection, turn: Turn, spent: Usage, now: int) -> None:
    """Write the end of the turn, and what its hooks add, with the parts that are on the disk already."""
    if turn.start.unrecorded is not None:
        turn.start.unrecorded(connection)
    row = history.turn(connection, turn.message_id)
    if row is None:
        return
    interrupt_turn(connection, row, now, (turn.end.outcome or INTERNAL_FAILURE).json())
    reply = history.message(connection, turn.request.reply_id)
    turn.end.reply_parts = reply.parts if reply is not None else []
    rows.add_usage(connection, turn.session.id, spent, now)
    turn.run_end_hooks(connection, now)


def save_session_model(connection: sqlite3.Connection, turn: Turn, now: int) -> None:
    """Make the model that the message chose the session's model, if a call with it has succeeded and no person has set
    another one meanwhile."""
    if turn.request.model_chosen_by == "message" and turn.budget.steps and turn.model == turn.session.model:
        rows.set_model(connection, turn.session.id, turn.model, now)
