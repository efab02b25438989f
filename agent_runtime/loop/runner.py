"""Runs one turn: feeds its chunks to the recorder and to the live stream, and settles it before its end is told."""

from __future__ import annotations

import asyncio
import sqlite3
from dataclasses import dataclass
from functools import partial

from ..context import View
from ..errors import StoreError
from ..ports import Clock, Model, ToolCatalog, ToolContext
from ..protocol import chunks as c
from ..sessions import Ids, MessageRow, Recorder, history, rows
from ..store import Database
from ..telemetry import logger
from ..workspace import Home
from .limits import INTERNAL, Outcome
from .state import Turn
from .turn import Kit, run_turn

log = logger(__name__)
SETTLE_WAITS = (0.5, 1.0, 2.0, 4.0)
"""Seconds between attempts to record the end of a turn."""


@dataclass(slots=True)
class Counters:
    """What the agent has done since it started."""

    steps: int = 0
    completed: int = 0
    failed: int = 0
    last_step_ms: int | None = None
    context_tokens: int = 0


@dataclass(frozen=True, slots=True)
class TurnRunner:
    """Everything a turn needs, wired once."""

    database: Database
    ids: Ids
    clock: Clock
    model: Model
    catalog: ToolCatalog
    home: Home
    parallel_tools: int
    counters: Counters

    async def run(self, turn: Turn) -> None:
        """The turn from its start to its settled end."""
        started = self._begin(turn)
        row = MessageRow(turn.reply_id, turn.conversation.id, "assistant", {}, started, started)
        recorder = Recorder(self.database, self.ids, self.clock, row)
        deadline = asyncio.get_running_loop().call_later(turn.books.limits.seconds, turn.stop, "deadline")
        try:
            await self._drive(turn, recorder)
        except Exception as error:
            log.exception("turn failed", message_id=turn.message_id, error=str(error))
            await self._fail(turn, recorder)
        finally:
            deadline.cancel()
            recorder.close()

    async def cancel(self, turn: Turn) -> None:
        """Settles a turn that never ran: a hidden tombstone stays in its place."""
        turn.outcome = Outcome("cancelled", "abort", "cancelled", "the turn was cancelled before it started")

        def unit(connection: sqlite3.Connection) -> None:
            now = self.clock.now_ms()
            rows.cancel_queued(connection, turn.message_id, now)
            self._end(connection, turn, now)

        await self.database.write(unit, durable=True)
        turn.live.publish(c.Abort(reason=turn.outcome.error))
        turn.live.close()

    async def _drive(self, turn: Turn, recorder: Recorder) -> None:
        kit = await self._kit(turn)
        async for chunk in run_turn(turn, kit):
            recorder.take(chunk)
            if isinstance(chunk, c.FinishStep):
                self.counters.steps += 1
                self.counters.last_step_ms = self.clock.now_ms()
            if isinstance(chunk, c.Finish | c.Abort):
                await self._settle(turn, recorder)
            turn.live.publish(chunk)

    def _begin(self, turn: Turn) -> int:
        """Notes the start; that of a turn that had to queue is also written down. Its time in epoch milliseconds."""
        started = turn.started_ms = turn.conversation.stamp(self.clock.now_ms())
        turn.started_at = self.clock.monotonic()
        if not turn.was_queued:
            return started

        def unit(connection: sqlite3.Connection) -> None:
            rows.start_turn(connection, turn.message_id, started)
            if turn.on_start is not None:
                turn.on_start(connection, turn, started)

        self.database.write(unit).add_done_callback(_logged)
        return started

    async def _kit(self, turn: Turn) -> Kit:
        conversation = turn.conversation
        if conversation.view is None:
            conversation.view = await self._read_view(turn)
        conversation.view.add_user(turn.parts)
        context = ToolContext(
            session_id=conversation.id,
            call_id="",
            workspace=self.home.workspace,
            scratch=self.home.scratch(conversation.id),
            principal=conversation.principal,
            interactive=turn.interactive,
        )
        tools = self.catalog.snapshot(conversation.tools)
        scratch = partial(self.home.make_scratch, conversation.id)
        return Kit(self.model, tools, conversation.view, context, self.parallel_tools, scratch)

    async def _read_view(self, turn: Turn) -> View:
        """The view from disk, without the message that this turn is about."""
        conversation = turn.conversation
        if not conversation.stored:
            return View(conversation.prompt)

        def unit(connection: sqlite3.Connection) -> View:
            past = history.messages(connection, conversation.id)
            return View.of(conversation.prompt, (message for message in past if message.id != turn.message_id))

        return await self.database.read(unit)

    async def _settle(self, turn: Turn, recorder: Recorder) -> None:
        """The end of the turn and all that hangs on it, in one transaction; only then anyone is told."""
        turn.state = "settling"
        turn.reply = recorder.data()
        turn.duration_ms = round((self.clock.monotonic() - (turn.started_at or 0.0)) * 1000)
        if turn.outcome is None or turn.outcome.status != "complete":
            turn.conversation.view = None
        await self._store(turn, recorder)
        turn.conversation.stored = True
        self._count(turn)

    async def _store(self, turn: Turn, recorder: Recorder) -> None:
        """A database that refuses for a moment, for a backup or a full disk, must not falsify how a turn ended."""
        for wait in (*SETTLE_WAITS, None):
            try:
                await recorder.settle(lambda connection, now: self._end(connection, turn, now))
                return
            except StoreError as error:
                if wait is None or turn.outcome is INTERNAL:
                    raise
                log.warning("the end of a turn could not be recorded yet", message_id=turn.message_id, error=str(error))
                await asyncio.sleep(wait)

    def _end(self, connection: sqlite3.Connection, turn: Turn, now: int) -> None:
        rows.end_turn(connection, turn.message_id, (turn.outcome or INTERNAL).json(), now)
        if turn.on_end is not None:
            turn.on_end(connection, turn, now)

    async def _fail(self, turn: Turn, recorder: Recorder) -> None:
        """The turn could not be carried out or settled: the record says so, and the reader of the stream is told."""
        turn.outcome = INTERNAL
        books = {"finish_reason": "error", "outcome": INTERNAL.json()}
        end = (c.ErrorChunk(errorText=INTERNAL.error or ""), c.Finish(finishReason="error", messageMetadata=books))
        for chunk in end:
            recorder.take(chunk)
        try:
            await self._settle(turn, recorder)
        except Exception as error:  # noqa: BLE001  the disk is gone as well; the next start repairs the record
            log.error("turn could not be settled", message_id=turn.message_id, error=str(error))
        for chunk in end:
            turn.live.publish(chunk)

    def _count(self, turn: Turn) -> None:
        self.counters.context_tokens = turn.conversation.context_tokens
        if turn.task_id is not None:
            complete = turn.outcome is not None and turn.outcome.status == "complete"
            self.counters.completed += complete
            self.counters.failed += not complete


def _logged(written: asyncio.Future[None]) -> None:
    if not written.cancelled() and (error := written.exception()) is not None:
        log.error("the start of a turn could not be recorded", error=str(error))
