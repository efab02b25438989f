"""Runs one turn: feeds its chunks to the recorder and to the live stream, and settles it before its end is told."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from agent_common.protocol import Usage
from agent_common.protocol import chunks as c
from agent_common.telemetry import logger

from ...context import CurrentTurn, View, read_view
from ...errors import BrokenRecord, StoreError
from ...learnings import NoLearnings
from ...ports import Clock, Events, Learnings, Model, NoteProvider, OpenGate, SideEffectGate, ToolCatalog, ToolContext
from ...sessions import Ids, Message, MessageParts, MessageRow, Recorder, history, markers, rows, tool_name
from ...store import Database, Unit
from ...workspace import Home
from ..core.authority import AuthorityResolver, UnknownAgent
from ..core.corrections import overhear
from ..core.limits import INTERNAL, UNRECORDED, TurnOutcome
from ..core.pending_requests import QUESTION, waits_of
from ..core.steering import SessionQueue, SteeringInbox
from ..core.turn_state import Turn
from ..notes.compose import note
from ..notes.daily_log import DailyLog, NoDailyLog, jot
from ..sessions.session_cost import PriceCheck
from ..turn.chunk_writer import ChunkWriter
from ..turn.context_budget import ContextBudgets, NoContextBudgets
from ..turn.deps import TurnDeps
from ..turn.resume_state import ResumeState
from ..turn.tool_model_calls import TurnMeter
from ..turn.turn import run_turn
from ..turn.turn_tools import open_toolbox
from .finalizer import WAITS, TurnFinalizer, keep_model

log = logger(__name__)
T = TypeVar("T")
_TERMINAL = (c.ErrorChunk, c.Finish, c.Abort)


@dataclass(slots=True)
class Counters:
    """What the agent has done since it started."""

    steps: int = 0
    completed: int = 0
    failed: int = 0
    last_step_ms: int | None = None
    context_tokens: int = 0
    """In the window of `model`, as of its last call in that session."""
    model: str | None = None
    """Of the turn that began last; none before the first one. Subagents do not count."""

    def in_use(self, turn: Turn) -> None:
        """Notes which model works, and how full its window is."""
        if turn.parent is None:
            self.model, self.context_tokens = turn.model, turn.conversation.context_tokens


@dataclass(frozen=True, slots=True)
class TurnRunner:
    """Everything a turn needs, wired once."""

    database: Database
    ids: Ids
    clock: Clock
    model: Model
    catalog: ToolCatalog
    home: Home
    powers: AuthorityResolver
    parallel_tools: int
    counters: Counters
    events: Events
    settler: TurnFinalizer
    learnings: Learnings = field(default_factory=NoLearnings)
    rooms: ContextBudgets = field(default_factory=NoContextBudgets)
    note_takers: Sequence[NoteProvider] = ()
    """Who is asked for notes when a turn starts, in the order of the block."""
    diary: DailyLog = field(default_factory=NoDailyLog)
    gate: SideEffectGate = field(default_factory=OpenGate)
    prices: PriceCheck | None = None
    skills: Path | None = None
    """The folder of plugins."""

    async def run(self, turn: Turn, lane: SessionQueue) -> None:
        """The turn from where it stands to its settled end, or to the point where only a person can help."""
        started = self._begin(turn)
        try:
            progress = await self._progress(turn) if turn.begun else ResumeState()
        except Exception:
            log.exception("a turn cannot be gone on with", message_id=turn.message_id)
            await self.settler.abandon(turn)
            return
        row = MessageRow(turn.reply_id, turn.conversation.id, "assistant", {}, started, started)
        recorder = Recorder(self.database, self.ids, self.clock, row, progress.parts)
        recorder.message.metadata.update(turn.about())
        deadline = asyncio.get_running_loop().call_later(self.seconds_left(turn), turn.stop, "deadline")
        try:
            await self._drive(turn, recorder, await self._kit(turn, lane, recorder, progress))
        except BrokenRecord as error:
            await self._fail(turn, recorder, TurnOutcome("failed", "error", "broken_record", str(error)))
        except StoreError as error:
            log.error("turn failed", message_id=turn.message_id, error=str(error))
            await self._fail(turn, recorder, UNRECORDED)
        except UnknownAgent as gone:
            await self._fail(turn, recorder, TurnOutcome("failed", "error", "unknown_agent", str(gone)))
        except Exception as error:
            log.exception("turn failed", message_id=turn.message_id, error=str(error))
            await self._fail(turn, recorder, INTERNAL)
        finally:
            deadline.cancel()
            recorder.close()

    async def _drive(self, turn: Turn, recorder: Recorder, kit: TurnDeps) -> None:
        async for chunk in run_turn(turn, kit):
            recorder.take(chunk)
            if isinstance(chunk, c.ToolInputAvailable) and chunk.toolName == QUESTION:
                turn.asked.add(chunk.toolCallId)
            elif isinstance(chunk, c.ToolApprovalRequest):
                turn.asked |= {chunk.approvalId, chunk.toolCallId}
            if isinstance(chunk, c.FinishStep):
                turn.asked.clear()
                self.counters.in_use(turn)
                self.counters.steps += 1
                self.counters.last_step_ms = self.clock.now_ms()
            if isinstance(chunk, _TERMINAL) and turn.state == "running":
                await self._settle(turn, recorder)  # many stop reading at an error, and may ask again at once
            turn.live.publish(chunk)
        if turn.outcome is None:
            await self._put_away(turn, recorder)

    # -- the beginning

    def _begin(self, turn: Turn) -> int:
        """Notes the start; that of a turn that had to wait is also written down. Its time in epoch milliseconds."""
        now = turn.conversation.stamp(self.clock.now_ms())
        already = max(0, now - turn.started_ms) / 1000 if turn.begun and turn.started_ms else 0.0
        started = turn.started_ms = turn.started_ms or now
        if turn.model_by == "session" and not turn.begun:
            turn.model = turn.conversation.model
        turn.started_at = self.clock.monotonic() - already
        self.counters.in_use(turn)
        if not turn.announced:
            turn.announced = True
            self.events.emit("turn-started", turn.conversation.principal, **turn.names())

        def unit(connection: sqlite3.Connection) -> None:
            if turn.begun:
                rows.go_on(connection, turn.message_id, now)
                return
            rows.start_turn(connection, turn.message_id, started)
            if turn.on_start is not None:
                turn.on_start(connection, turn, started)

        if turn.begun or turn.was_queued:
            turn.start, turn.starting = unit, self.database.write(unit)
            turn.starting.add_done_callback(lambda written: _started(turn, written))
        return started

    def seconds_left(self, turn: Turn) -> float:
        """The deadline of a task counts on over restarts; a person who was waited for costs a chat nothing."""
        used = self.clock.monotonic() - (turn.started_at or 0.0) if turn.task_id else 0.0
        return max(0.0, turn.books.limits.seconds - used)

    async def _progress(self, turn: Turn) -> ResumeState:
        def unit(connection: sqlite3.Connection) -> tuple[Message | None, list[str], Usage]:
            reply, ids = history.message(connection, turn.reply_id), history.part_ids(connection, turn.reply_id)
            return reply, ids, _spent_for(connection, turn) if turn.task_id else Usage()

        reply, ids, helpers = await self._read(unit)
        fresh = not turn.books.tokens  # else the books of this life know more
        if fresh:
            turn.books.charge(helpers)
        if reply is None:
            return ResumeState()
        progress = ResumeState.of(reply, MessageParts.of(self.ids.new, ids, reply))
        if progress.usage is not None and not turn.books.steps:
            turn.books.usage, turn.books.cost_usd = progress.usage, progress.usage.cost_usd or 0.0
        turn.books.steps = progress.steps
        turn.books.calls = progress.calls
        turn.books.egress.sent = progress.egress
        if fresh:
            turn.books.charge(progress.model_usage)
        return progress

    async def _read(self, unit: Unit[T]) -> T:
        """A disk that stumbles must not end a turn that has come so far."""
        for wait in WAITS:
            try:
                return await self.database.read(unit)
            except BrokenRecord:
                raise  # to read it again does not help
            except StoreError as error:
                log.warning("a turn could not be read yet", error=str(error))
                await asyncio.sleep(wait)
        return await self.database.read(unit)

    async def _kit(self, turn: Turn, lane: SessionQueue, recorder: Recorder, progress: ResumeState) -> TurnDeps:
        conversation, brief = turn.conversation, turn.conversation.brief(turn.agent)
        assert brief is not None  # noqa: S101  it was made when the turn was admitted
        if conversation.view is None:
            conversation.view = await self._read_view(turn)
            conversation.gauge.reset()
        conversation.view.begin_with(brief.prompt)
        overhear(turn, conversation.view, self.learnings)
        await note(turn, conversation.view, self)
        conversation.view.add_user(turn.parts, turn.agent, turn.noted, turn.message_id)
        for step in progress.past:
            conversation.view.add_step(step)
        context = ToolContext(
            session_id=conversation.id,
            call_id="",
            workspace=self.home.workspace,
            scratch=self.home.scratch(conversation.id),
            message_id=turn.message_id,
            principal=conversation.principal,
            agent=turn.agent,
            interactive=turn.interactive,
            packages=brief.packages,
            skills=self.skills,
            egress=turn.books.egress,
            model_calls=TurnMeter(turn.books, self.prices),
        )
        tools = await open_toolbox(turn, self.catalog, partial(self.powers.of, turn), self.database)
        return TurnDeps(
            self.model,
            tools,
            conversation.view,
            context,
            partial(self.powers.of, turn),
            self.parallel_tools,
            before_tools=partial(self.home.make_scratch, conversation.id),
            checkpoint=recorder.save,
            saved=partial(recorder.save, durable=False),
            steering=SteeringInbox(lane, turn, recorder, self.learnings),
            progress=progress,
            learnings=self.learnings,
            room=self.rooms.room(turn, conversation.view, recorder, brief.prompt),
            gate=self.gate,
            has_call=lambda call: self.database.read(
                lambda connection: history.has_call(connection, conversation.id, call)
            ),
            prices=self.prices,
        )

    async def _read_view(self, turn: Turn) -> View:
        """The view from disk, without the message that this turn is about and its reply."""
        conversation = turn.conversation
        if conversation.blank:
            conversation.blank = False
            return View(conversation.prompt, conversation.agent)

        own = CurrentTurn(turn.message_id, turn.reply_id, last=turn.begun)
        return await self._read(
            lambda connection: read_view(connection, conversation.id, conversation.prompt, conversation.agent, own)
        )

    # -- the end

    async def _put_away(self, turn: Turn, recorder: Recorder) -> None:
        """The turn waits for a person. That is durable before anybody is told."""
        turn.state = "settling"
        turn.reply = recorder.data()
        turn.waiting_since = self.clock.now_ms()
        turn.conversation.view = None
        await self.settler.store(turn, recorder, _put_away)
        turn.begun = True
        turn.waits = waits_of(turn.reply)
        turn.asked.clear()
        turn.interruptible = False
        turn.state = "waiting"
        turn.live.pause(waiting_end(turn))
        kinds = [wait.kind for wait in turn.waits.values()]
        log.info("turn waits", session_id=turn.conversation.id, message_id=turn.message_id, pending=kinds)
        for wait in turn.waits.values():
            facts = {**turn.names(), "id": wait.id, "kind": wait.kind}
            self.events.emit("approval-requested", turn.conversation.principal, **facts)

    async def _settle(self, turn: Turn, recorder: Recorder) -> None:
        """The end of the turn and all that hangs on it, in one transaction; only then anyone is told."""
        turn.state = "settling"
        turn.reply = recorder.data()
        turn.duration_ms = round((self.clock.monotonic() - (turn.started_at or 0.0)) * 1000)
        if turn.outcome is None or turn.outcome.status != "complete":
            turn.conversation.view = None
        await self.settler.settle(turn, recorder)
        turn.settled = True
        self._count(turn)
        jot(turn, self.diary)

    async def _fail(self, turn: Turn, recorder: Recorder, outcome: TurnOutcome) -> None:
        """The turn could not be carried out or settled: the record says so, and the reader of the stream is told."""
        turn.outcome, why = outcome, outcome.error or ""
        books = {"finish_reason": "error", "outcome": outcome.json()}
        said = recorder.data()
        closing = ChunkWriter(lambda _: None, said).close(why) if any(map(_is_open, said)) else ()
        last = (c.ErrorChunk(errorText=why), c.Finish(finishReason="error", messageMetadata=books))
        end = (*closing, *last)
        for chunk in end:
            recorder.take(chunk)
        try:
            await self._settle(turn, recorder)
        except Exception as error:  # noqa: BLE001  the disk is gone as well
            log.error("the end of a turn is not recorded", message_id=turn.message_id, error=str(error))
            self.settler.settle_late(turn, recorder)
        for chunk in end:
            turn.live.publish(chunk)

    def _count(self, turn: Turn) -> None:
        self.counters.in_use(turn)
        if turn.task_id is not None:
            complete = turn.outcome is not None and turn.outcome.status == "complete"
            self.counters.completed += complete
            self.counters.failed += not complete


def _is_open(part: dict[str, Any]) -> bool:
    return tool_name(part) is not None and not part["state"].startswith("output-")


def _put_away(connection: sqlite3.Connection, turn: Turn, now: int) -> None:
    rows.put_away(connection, turn.message_id, now)
    keep_model(connection, turn, now)


def _spent_for(connection: sqlite3.Connection, turn: Turn) -> Usage:
    """What summaries and subagents have used for the turn in earlier lives; that is on records of their own."""
    called = history.spent_by_subagents(connection, turn.conversation.id, turn.message_id)
    return markers.spent(connection, turn.conversation.id).plus(called)


def waiting_end(turn: Turn) -> tuple[c.Chunk, ...]:
    """How the stream ends for those who do not wait while the turn does."""
    return c.FinishStep(), c.Finish(finishReason="tool-calls", messageMetadata={"pending": turn.pending()})


def _started(turn: Turn, written: asyncio.Future[None]) -> None:
    if written.cancelled() or (error := written.exception()) is None:
        turn.start = None
    else:
        log.warning("the start of a turn could not be recorded yet", message_id=turn.message_id, error=str(error))
