"""Run one turn: send its chunks to the recorder and to the live stream, and record its end before publishing it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from agent_common.protocol import Usage
from agent_common.protocol import chunks as c
from agent_common.telemetry import logger

from ...context import CurrentTurn, View, read_view
from ...errors import BrokenRecord, StoreError
from ...ports import NoteProvider, Spawner, ToolContext
from ...sessions import FALLBACKS, Message, MessageParts, MessageRow, Recorder, history, markers, rows, tool_name
from ..core.authority import UnknownAgent
from ..core.corrections import detect_correction
from ..core.listed_requests import listed_requests
from ..core.pending_requests import QUESTION_TOOL, pending_requests_of
from ..core.steering import SessionQueue, SteeringInbox
from ..core.turn_state import Turn
from ..limits.model_meter import TurnMeter
from ..limits.outcome import INTERNAL_FAILURE, STORE_FAILURE, TurnOutcome
from ..notes.compose import compose_notes
from ..notes.daily_log import DailyLog, NoDailyLog, log_turn
from ..services import LoopServices
from ..turn.approval_codes import ApprovalCodes
from ..turn.chunk_writer import ChunkWriter
from ..turn.context_budget import ContextBudgets
from ..turn.deps import TurnDeps
from ..turn.resume_state import ResumeState
from ..turn.turn import run_turn
from ..turn.turn_tools import open_turn_tools
from .finalizer import RETRY_SECONDS, TurnFinalizer, record_end, save_session_model

log = logger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TurnRunner:
    """Runs turns that have rows of their own in the database."""

    services: LoopServices
    finalizer: TurnFinalizer
    context_budgets: ContextBudgets
    spawner: Spawner | None = None
    """Runs the agents that tools call; None: no agent can be called."""
    note_providers: Sequence[NoteProvider] = ()
    """They are asked for notes when a turn starts, in the order in which the model reads them."""
    daily_log: DailyLog = field(default_factory=NoDailyLog)

    async def run(self, turn: Turn, queue: SessionQueue) -> None:
        """Run the turn from its present state to its recorded end, or until it has to wait for a person."""
        services = self.services
        started = self._begin(turn)
        try:
            resume_state = await self._load_resume_state(turn) if turn.has_run_before else ResumeState()
        except Exception:
            log.exception("a turn cannot be resumed", message_id=turn.message_id)
            await self.finalizer.finalize_unreadable(turn)
            return
        row = MessageRow(turn.request.reply_id, turn.session.id, "assistant", {}, started, started)
        recorder = Recorder(services.database, services.ids, services.clock, row, resume_state.parts)
        recorder.message.metadata.update(turn.reply_metadata())
        deadline = asyncio.get_running_loop().call_later(
            turn.seconds_left(services.clock.monotonic()), turn.stop, "deadline"
        )
        try:
            await self._drive(turn, recorder, await self._build_deps(turn, queue, recorder, resume_state))
        except BrokenRecord as error:
            await self._fail(turn, recorder, TurnOutcome("failed", "error", "broken_record", str(error)))
        except StoreError as error:
            log.error("turn failed", message_id=turn.message_id, error=str(error))
            await self._fail(turn, recorder, STORE_FAILURE)
        except UnknownAgent as gone:
            await self._fail(turn, recorder, TurnOutcome("failed", "error", "unknown_agent", str(gone)))
        except Exception as error:
            log.exception("turn failed", message_id=turn.message_id, error=str(error))
            await self._fail(turn, recorder, INTERNAL_FAILURE)
        finally:
            deadline.cancel()
            recorder.close()

    async def _drive(self, turn: Turn, recorder: Recorder, deps: TurnDeps) -> None:
        async for chunk in run_turn(turn, deps):
            recorder.record(chunk)
            match chunk:
                case c.TextDelta():  # nearly all are: for these nothing else is checked
                    pass
                case c.ToolInputAvailable() if chunk.toolName == QUESTION_TOOL:
                    turn.human_wait.answerable_ids.add(chunk.toolCallId)
                case c.ToolApprovalRequest():
                    turn.human_wait.answerable_ids.add(chunk.approvalId)
                case c.FinishStep():
                    turn.human_wait.answerable_ids.clear()
                    self.services.counters.count_step(turn, self.services.clock.now_ms())
                case c.ErrorChunk() | c.Finish() | c.Abort() if turn.state == "running":
                    await self._finalize(turn, recorder)  # a client may stop reading here and send again
                case _:
                    pass
            turn.stream.publish(chunk)
        if turn.end.outcome is None:
            await self._pause(turn, recorder)

    # -- the beginning

    def _begin(self, turn: Turn) -> int:
        """Mark the turn as started and return its start in epoch milliseconds. The start of a turn that was queued or
        is resumed is also written to the database."""
        now = turn.session.next_timestamp(self.services.clock.now_ms())
        already = max(0, now - turn.start.at_ms) / 1000 if turn.has_run_before and turn.start.at_ms else 0.0
        started = turn.start.at_ms = turn.start.at_ms or now
        if turn.request.model_chosen_by == "session" and not turn.has_run_before:
            turn.model = turn.session.model
        turn.start.monotonic = self.services.clock.monotonic() - already
        self.services.counters.update_model(turn)
        if not turn.start.announced:
            turn.start.announced = True
            self.services.events.emit("turn-started", turn.session.principal, **turn.event_facts())

        def unit(connection: sqlite3.Connection) -> None:
            if turn.has_run_before:
                rows.resume_turn(connection, turn.message_id, now)
                return
            rows.start_turn(connection, turn.message_id, started)
            if turn.request.on_start is not None:
                turn.request.on_start(connection, turn, started)

        if turn.has_run_before or turn.admission.queued:
            turn.start.write = self.services.database.write(unit)
            turn.start.unrecorded = unit
            turn.start.write.add_done_callback(lambda written: _on_start_written(turn, written))
        return started

    async def _load_resume_state(self, turn: Turn) -> ResumeState:
        def unit(connection: sqlite3.Connection) -> tuple[Message | None, list[str], Usage]:
            reply = history.message(connection, turn.request.reply_id)
            ids = history.part_ids(connection, turn.request.reply_id)
            return reply, ids, _separately_recorded_usage(connection, turn) if turn.request.task_id else Usage()

        reply, ids, helpers = await self._with_retries(lambda: self.services.database.read(unit))
        fresh = not turn.budget.tokens  # otherwise this process has counted its usage already
        if fresh:
            turn.budget.add_helper_usage(helpers)
        if reply is None:
            return ResumeState()
        resume_state = ResumeState.from_reply(reply, MessageParts.from_reply(self.services.ids.new, ids, reply))
        if resume_state.usage is not None and not turn.budget.steps:
            turn.budget.restore(resume_state.usage)
        turn.fallbacks = reply.metadata.get(FALLBACKS, [])
        turn.budget.steps = resume_state.completed_model_calls
        turn.budget.calls = resume_state.finished_tool_calls
        turn.budget.egress.sent_bytes = resume_state.egress_bytes
        if fresh:
            turn.budget.add_helper_usage(resume_state.model_usage)
        return resume_state

    async def _with_retries(self, read: Callable[[], Awaitable[T]]) -> T:
        """Read with retries, so that a failing disk does not end a turn that has progressed this far."""
        for wait in RETRY_SECONDS:
            try:
                return await read()
            except BrokenRecord:
                raise  # reading it again would not help
            except StoreError as error:
                log.warning("a turn could not be read, retrying", error=str(error))
                await asyncio.sleep(wait)
        return await read()

    async def _build_deps(
        self, turn: Turn, queue: SessionQueue, recorder: Recorder, resume_state: ResumeState
    ) -> TurnDeps:
        services = self.services
        session = turn.session
        agent = turn.request.agent
        agent_prompt = session.prompts[agent]  # it was made when the turn was admitted
        if agent not in session.agent_rules:
            session.agent_rules[agent] = await self._with_retries(
                lambda: services.agent_rules.share(session.principal, agent)
            )
        if session.view is None:
            session.view = await self._read_view(turn)
            session.context_usage.reset()
        session.view.begin_with(agent_prompt.prompt)
        detect_correction(turn, session.view, services.learnings)
        await compose_notes(turn, session.view, services.database, services.clock, self.note_providers)
        session.view.add_user(turn.request.parts, turn.request.agent, turn.all_notes, turn.message_id)
        for step in resume_state.past_steps:
            session.view.add_step(step)
        context = ToolContext(
            session_id=session.id,
            call_id="",
            workspace=services.home.workspace,
            scratch=services.home.scratch(session.id),
            message_id=turn.message_id,
            task_id=turn.root.request.task_id or "",
            principal=session.principal,
            agent=turn.request.agent,
            interactive=turn.request.interactive,
            may_subscribe=turn.request.goes_on,
            packages=agent_prompt.packages,
            skills=services.skills_folder,
            outside_text=session.outside_text,
            egress=turn.budget.egress,
            spawner=self.spawner,
            model_meter=TurnMeter(turn.budget, services.price_check),
            was_aborted=turn.was_aborted,
        )
        authority = partial(services.authority_resolver.resolve, turn)
        tools = await open_turn_tools(turn, services.tool_catalog, authority, services.database)
        return TurnDeps(
            services=services,
            tools=tools,
            view=session.view,
            tool_context=context,
            prepare_scratch=partial(services.home.make_scratch, session.id),
            recorder=recorder,
            steering=SteeringInbox(queue, turn, recorder, services.learnings),
            resume_state=resume_state,
            context_budget=self.context_budgets.open_budget(turn, session.view, recorder, agent_prompt.prompt),
            side_effect_gate=services.side_effect_gate,
            session_has_tool_call=lambda call: services.database.read(
                lambda connection: history.has_call(connection, session.id, call)
            ),
            approval_codes=ApprovalCodes(
                lambda: services.database.read(lambda connection: history.approval_codes(connection, session.id))
            ),
        )

    async def _read_view(self, turn: Turn) -> View:
        """Read the view from disk, without this turn's own message and reply."""
        session = turn.session
        if session.empty:
            session.empty = False
            return View(session.own_prompt.prompt, session.agent)

        prompt = session.own_prompt.prompt
        own = CurrentTurn(turn.message_id, turn.request.reply_id, exclude_later=turn.has_run_before)
        return await self._with_retries(
            lambda: self.services.database.read(
                lambda connection: read_view(connection, session.id, prompt, session.agent, own)
            )
        )

    # -- the end

    async def _pause(self, turn: Turn, recorder: Recorder) -> None:
        """Put the turn into state `waiting`, durably before any client can see it."""
        turn.transition("finalizing")
        turn.end.reply_parts = recorder.current_parts()
        turn.human_wait.since_ms = self.services.clock.now_ms()
        turn.session.view = None
        await self.finalizer.save_with_retries(turn, recorder, _record_pause)
        turn.has_run_before = True
        turn.human_wait.requests = pending_requests_of(turn.request.reply_id, turn.end.reply_parts)
        turn.human_wait.answerable_ids.clear()
        turn.interruptible = False
        turn.transition("waiting")
        turn.stream.pause(waiting_end(turn))
        kinds = [request.kind for request in turn.human_wait.requests.values()]
        log.info("turn waits", session_id=turn.session.id, message_id=turn.message_id, pending=kinds)
        for request in listed_requests(turn, self.services.admission.answer_seconds):
            facts = {**turn.event_facts(), **request.model_dump(exclude_none=True)}
            self.services.events.emit("approval-requested", turn.session.principal, **facts)

    async def _finalize(self, turn: Turn, recorder: Recorder) -> None:
        """Record the end of the turn and its hooks in one transaction, before any client can see it."""
        turn.transition("finalizing")
        turn.end.reply_parts = recorder.current_parts()
        turn.end.duration_ms = round((self.services.clock.monotonic() - (turn.start.monotonic or 0.0)) * 1000)
        if turn.end.outcome is None or turn.end.outcome.status != "complete":
            turn.session.view = None
        await self.finalizer.save_with_retries(turn, recorder, record_end)
        self._note_end(turn)

    def _note_end(self, turn: Turn) -> None:
        turn.end.recorded = True
        self.services.counters.count_end(turn)
        log_turn(turn, self.daily_log)

    async def _fail(self, turn: Turn, recorder: Recorder, outcome: TurnOutcome) -> None:
        """Record a failed end and publish it. What the parts hold does not keep a turn from its end: if they cannot be
        recorded, the end is recorded without them."""
        turn.end.outcome = outcome
        why = outcome.error or ""
        metadata = {"finish_reason": "error", "outcome": outcome.json()}
        end: tuple[c.Chunk, ...] = (
            c.ErrorChunk(errorText=why),
            c.Finish(finishReason="error", messageMetadata=metadata),
        )
        try:
            parts = recorder.current_parts()
            closing = ChunkWriter(lambda _: None, parts).close(why) if any(map(_is_open, parts)) else ()
            end = (*closing, *end)
            for chunk in end:
                recorder.record(chunk)
            await self._finalize(turn, recorder)
        except StoreError as error:
            log.error("the end of a turn is not recorded", message_id=turn.message_id, error=str(error))
            self.finalizer.finalize_later(turn, recorder, with_parts=True)
        except Exception as error:
            log.exception("the parts of a turn cannot be recorded", message_id=turn.message_id, error=str(error))
            await self._end_from_rows(turn, recorder)
        for chunk in end:
            turn.stream.publish(chunk)

    async def _end_from_rows(self, turn: Turn, recorder: Recorder) -> None:
        turn.end.reply_parts = []
        turn.session.view = None
        try:
            await self.finalizer.finalize_from_rows(turn, recorder)
            self._note_end(turn)
        except Exception as error:  # noqa: BLE001  the disk is gone as well
            log.error("the end of a turn is not recorded", message_id=turn.message_id, error=str(error))
            self.finalizer.finalize_later(turn, recorder, with_parts=False)


def _is_open(part: dict[str, Any]) -> bool:
    return tool_name(part) is not None and not part["state"].startswith("output-")


def _record_pause(connection: sqlite3.Connection, turn: Turn, now: int) -> None:
    rows.suspend_turn(connection, turn.message_id, turn.human_wait.since_ms or now)
    save_session_model(connection, turn, now)


def _separately_recorded_usage(connection: sqlite3.Connection, turn: Turn) -> Usage:
    """Return the usage of earlier processes' summaries and subagents, which is on records of their own."""
    called = history.subagent_usage(connection, turn.session.id, turn.message_id)
    return markers.summary_usage(connection, turn.session.id).plus(called)


def waiting_end(turn: Turn) -> tuple[c.Chunk, ...]:
    """Return the chunks that end the stream for readers that do not wait for a person's answer."""
    return c.FinishStep(), c.Finish(finishReason="tool-calls", messageMetadata={"pending": turn.pending()})


def _on_start_written(turn: Turn, written: asyncio.Future[None]) -> None:
    if written.cancelled() or (error := written.exception()) is None:
        turn.start.unrecorded = None
    else:
        log.warning("the start of a turn could not be recorded", message_id=turn.message_id, error=str(error))
