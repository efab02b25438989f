"""The only scheduler: every request for a turn comes through here, from any entry point.

A session runs one turn at a time. Sessions run in parallel up to a limit: a free slot goes to the principal with the
fewest turns, and those of one principal run in the order of arrival. A place is reserved before the first await and the
turn starts only after its admission is on disk, so two callers can never both find a session idle, and nothing runs
that a crash would forget.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Generator, Iterable
from contextvars import Context
from typing import Literal

from agent_common.net import fits_share
from agent_common.telemetry import logger

from ...errors import Busy, Conflict, NotReady
from ...ports import Events
from ...store import Database, Unit
from ..core.live_sessions import LiveSession
from ..core.steering import SessionQueue
from ..core.turn_state import StopReason, Turn
from .end_log import log_end
from .turn_queues import TurnQueues
from .turn_slots import TurnSlots

log = logger(__name__)

RunTurn = Callable[[Turn, SessionQueue], Awaitable[None]]
"""Runs a turn to its recorded end, or cancels it before it ran. The turn may also be left in state `waiting`."""
CANCEL_SECONDS = 10.0
ANSWER_SECONDS = 7 * 86_400.0
MAX_TURNS = 10_000
"""Turns held in all, including those of paused sessions: these do not count as queued, as only a new message starts
them."""
KEPT_BYTES = 128 * 1024 * 1024
"""Memory of the messages and streams of all turns that have not ended. The next process keeps them again."""
STREAM_BYTES = 48 * 1024 * 1024
"""Memory of the streams of all turns that run. A stream is kept several times over while its reply is recorded."""


class Admission:
    """Decides when turns run: one at a time per session, and as many sessions as there are slots."""

    def __init__(
        self,
        database: Database,
        events: Events,
        *,
        slots: int,
        queue_limit: int,
        answer_seconds: float = ANSWER_SECONDS,
    ) -> None:
        self._database = database
        self._events = events
        self._run: RunTurn
        self._cancel: RunTurn
        self.slots = TurnSlots(slots, queue_limit)
        self.answer_seconds = answer_seconds
        """How long a turn waits for a person."""
        self.queues = TurnQueues()
        self._draining = False

    def start(self, run: RunTurn, cancel: RunTurn) -> None:
        """Set the functions that run a turn and that cancel one before it ran. Call this before the first `admit`."""
        self._run = run
        self._cancel = cancel

    # -- entry points

    async def admit(self, turn: Turn, unit: Callable[[Turn], Unit[None]]) -> None:
        """Store the turn durably and schedule it. `unit` writes it, given the turn with `admission.queued` set.

        Raises Busy if the queue is full, and any exception of the write; then nothing has changed. Cancelling the
        caller does not withdraw a write that is under way: the turn is then admitted all the same.
        """
        self._reserve(turn)
        try:
            turn.admission.write = self._database.write(unit(turn), durable=True)
        except BaseException:
            self._withdraw(turn)
            raise
        turn.admission.write.add_done_callback(lambda written: self._on_admission_written(turn, written))
        await asyncio.shield(turn.admission.write)

    def readmit(self, turn: Turn, now_ms: int) -> None:
        """Schedule a turn of an earlier process: one that was queued, waited for a person, or was interrupted."""
        turn.admission.done = turn.admission.queued = True
        turn.measure()
        self.queues.add(turn)
        if turn.state == "waiting":
            self._start_wait_timer(turn, (now_ms - (turn.human_wait.since_ms or now_ms)) / 1000)
        self._schedule_next(turn.session.id)

    async def stop(self, turn: Turn, reason: Literal["cancelled", "caller", "host_deadline"] = "cancelled") -> None:
        """Cancel a turn that is queued, running or waiting, and wait for its end. An ended turn stays as it is. Raises
        NotReady if it does not end in time."""
        await _wait_for_admissions([turn])
        try:
            async with asyncio.timeout(CANCEL_SECONDS):
                if turn.state == "finalizing":
                    await turn.paused_or_ended.wait()
                while turn.human_wait.answer_writes:  # an answer that is being written counts
                    await asyncio.wait(turn.human_wait.answer_writes)
                if turn.state == "queued":
                    await self._cancel_queued_turn(turn, reason)
                elif turn.state in ("waiting", "resuming"):
                    if self._draining:  # the next process has it
                        raise NotReady("the server is shutting down", headers={"Retry-After": "1"})
                    self._stop_waiting(turn, reason)
                turn.stop(reason)
                await turn.ended.wait()
        except TimeoutError:
            raise NotReady("the turn is stopping but has not ended yet", headers={"Retry-After": "1"}) from None

    async def cancel_queued(self, turn: Turn) -> bool:
        """Cancel a message that is still queued. Returns False if it has left the queue already."""
        await _wait_for_admissions([turn])
        if turn.state == "queued":
            await self._cancel_queued_turn(turn)
            return True
        return False

    def resume_if_answered(self, turn: Turn) -> None:
        """Let a waiting turn continue as soon as there is a slot, if it has all its answers."""
        if turn.state == "waiting" and not turn.human_wait.requests and not turn.human_wait.answer_writes:
            turn.transition("resuming")
            if turn.human_wait.timer is not None:
                turn.human_wait.timer.cancel()
            turn.paused_or_ended.clear()
            turn.stream.resume()
            self._schedule_next(turn.session.id)

    # -- steering

    def claim_steering(self, turn: Turn) -> list[Turn]:
        found = [message for message in self.queues.session_turns(turn.session) if message.would_join(turn)]
        for message in found:
            message.transition("finalizing")
        return found

    def mark_joined(self, message: Turn, turn: Turn) -> None:
        message.end.joined_turn = turn
        message.stream.continue_as(turn.stream)
        self._remove(message)
        message.mark_ended()

    def requeue(self, message: Turn) -> None:
        message.transition("queued")
        self._schedule_next(message.session.id)

    async def stop_all(self, session: LiveSession) -> None:
        """End all turns of a session and cancel its queue. Raises NotReady if a turn does not end in time."""
        session_id = session.id
        mine = session_id not in self.queues.held
        self.queues.held.add(session_id)
        try:
            while (turn := self.queues.head_turn(session)) is not None:
                for waiting in self.queues.queue(session):
                    await self.cancel_queued(waiting)
                await self.stop(turn)
            for helper in [turn for turn in self.queues.all() if turn.is_called_from(session)]:
                await self.stop(helper, "caller")
        finally:
            if mine:
                self.queues.held.discard(session_id)
                self._schedule_next(session_id)

    @contextlib.contextmanager
    def hold(self, session: LiveSession) -> Generator[None]:
        """Keep a session idle while its record is changed. Messages that come meanwhile queue. Raises Conflict
        `session_busy` if a turn is running or waiting in it, or another request holds it."""
        busy = self.queues.active_turn(session)
        if busy is not None or session.id in self.queues.held:
            names = busy.public_ids() if busy else {}
            raise Conflict("the session is busy; wait for its turn or abort it", code="session_busy", running=names)
        self.queues.held.add(session.id)
        session.use_count += 1
        try:
            yield
        finally:
            session.use_count -= 1
            self.queues.held.discard(session.id)
            self._schedule_next(session.id)

    # -- shutdown

    async def drain(self, grace: float) -> None:
        """Admit no more turns, give running ones `grace` seconds, then cancel them: the next process recovers them."""
        self._draining = True
        await _wait_for_admissions(self.queues.all())
        # Queued and waiting turns make no more progress in this process.
        for turn in (*self.queues.turns("queued"), *self.queues.turns("waiting")):
            turn.stream.interrupt()
            turn.paused_or_ended.set()
            turn.ended.set()
        running = [turn.run_task for turn in self.queues.turns("running") if turn.run_task is not None]
        if running and grace > 0:
            await asyncio.wait(running, timeout=grace)
        for turn in self.queues.turns("running"):
            turn.stop("shutdown")
        if running:
            await asyncio.wait(running, timeout=CANCEL_SECONDS)
        for turn in self.queues.all():
            turn.stream.interrupt()

    def stream_fits(self, turn: Turn) -> bool:
        """Whether the stream of a running turn may grow: it takes no more than all streams leave free."""
        others = sum(one.stream.size for one in self.queues.turns("running") if one is not turn)
        return fits_share(STREAM_BYTES - others - turn.stream.size, turn.stream.size)

    # -- slots

    def _reserve(self, turn: Turn) -> None:
        if self._draining:
            raise NotReady("the server is shutting down", headers={"Retry-After": "1"})
        if turn.request.parent is not None:  # a subagent needs no slot: its caller has one
            turn.transition("running")
            self.queues.add(turn)
            return
        self._require_memory(turn)
        principal = turn.session.principal
        session = turn.session
        busy = self.queues.head_turn(session) is not None or session.id in self.queues.held
        if busy or self.slots.free <= 0:
            self._require_queue_space(principal)
            turn.admission.queued = True
        else:
            turn.transition("running")
            self._adjust_slots(turn, 1)
        self.queues.add(turn)

    def _require_queue_space(self, principal: str) -> None:
        """Raise Busy if no more turns of the principal may wait."""
        waiting = self.queues.waiting_turns()
        own = sum(turn.session.principal == principal for turn in waiting)
        if not self.slots.may_wait(len(waiting), own) or not self._may_hold_more(principal):
            raise Busy(f"{own} of your turns are waiting; try again later", headers={"Retry-After": "5"})

    def _require_memory(self, turn: Turn) -> None:
        """Raise Busy if the turns of its principal would keep more than its share of memory until they end."""
        turn.measure()
        held = self.queues.all()
        own = sum(one.kept_bytes for one in held if one.session.principal == turn.session.principal)
        if not fits_share(KEPT_BYTES - sum(one.kept_bytes for one in held), own, turn.kept_bytes):
            text = "your turns that have not ended hold too much: end some, send less, or try again later"
            raise Busy(text, headers={"Retry-After": "5"})

    def _may_hold_more(self, principal: str) -> bool:
        """Whether one more turn may be held, in a paused session or another."""
        if len(self.queues) < MAX_TURNS // 2:
            return True
        held = self.queues.all()
        return fits_share(MAX_TURNS - len(held), sum(turn.session.principal == principal for turn in held))

    def _adjust_slots(self, turn: Turn, count: int) -> None:
        """Take `count` slots; -1 returns one. Subagents need none: waiting for one, they would block their callers."""
        if turn.request.parent is None:
            self.slots.take(turn.session.principal, count)

    def _on_admission_written(self, turn: Turn, written: asyncio.Future[None]) -> None:
        if written.exception() is not None:
            self._withdraw(turn)
            return
        turn.admission.done = turn.session.stored = True
        turn.session.has_text |= any(part["type"] == "text" for part in turn.request.parts)
        self.queues.paused.discard(turn.session.id)
        if turn.state == "running":
            self._start(turn)
        else:
            self._schedule_next(turn.session.id)

    async def _cancel_queued_turn(self, turn: Turn, reason: StopReason = "cancelled") -> None:
        """Cancel a queued turn; it stays queued if that cannot be recorded. Cancelling the caller does not stop a write
        that is under way."""
        turn.transition("finalizing")
        turn.end.stop_reason = reason
        self.queues.withhold(turn)
        turn.run_task = asyncio.create_task(self._cancel_and_remove(turn), name=f"cancel {turn.message_id}")
        await asyncio.shield(turn.run_task)

    async def _cancel_and_remove(self, turn: Turn) -> None:
        try:
            await self._cancel(turn, self)
        except BaseException:
            turn.end.stop_reason = None
            turn.transition("queued")
            self._schedule_next(turn.session.id)
            raise
        log_end(turn)
        self._remove(turn)
        turn.mark_ended()

    def _withdraw(self, turn: Turn) -> None:
        """Give the place of a turn whose admission failed to the next one."""
        if turn.state == "running":
            self._adjust_slots(turn, -1)
        self._remove(turn)
        turn.mark_ended()

    def _remove(self, turn: Turn) -> None:
        self.queues.remove(turn)
        self._fill()

    def _schedule_next(self, session_id: str) -> None:
        """Start turns if possible, after a session has changed."""
        self.queues.offer_head(session_id)
        self._fill()

    def _fill(self) -> None:
        """Start turns while slots are free."""
        while not self._draining and (turn := self.queues.next_startable(self.slots)) is not None:
            self._adjust_slots(turn, 1)
            turn.transition("running")
            self._start(turn)

    def _start_wait_timer(self, turn: Turn, waited: float) -> None:
        """Start the timer of a person's answer, of which `waited` seconds have passed."""
        left = max(0.0, self.answer_seconds - max(0.0, waited))
        turn.human_wait.timer = asyncio.get_running_loop().call_later(left, self._expire, turn)

    def _expire(self, turn: Turn) -> None:
        if turn.human_wait.answer_writes:
            next(iter(turn.human_wait.answer_writes)).add_done_callback(lambda _: self._expire(turn))
        elif turn.state == "waiting" and turn.human_wait.requests:
            self._stop_waiting(turn, "unanswered")

    def _stop_waiting(self, turn: Turn, reason: StopReason) -> None:
        """End a waiting turn: it runs once more, without waiting for a slot, only to record its end."""
        if turn.state not in ("waiting", "resuming") or self._draining:
            return
        self.queues.withhold(turn)
        turn.end.stop_reason = reason
        turn.transition("running")
        for request in turn.human_wait.requests.values():
            facts = request.resolved_facts("expired" if reason == "unanswered" else "cancelled")
            self._events.emit("approval-resolved", turn.session.principal, **turn.event_facts(), **facts)
        turn.human_wait.requests.clear()
        turn.paused_or_ended.clear()
        turn.stream.resume()
        self._adjust_slots(turn, 1)
        self._start(turn)

    def _start(self, turn: Turn) -> None:
        if turn.human_wait.timer is not None:
            turn.human_wait.timer.cancel()
        name = f"turn {turn.message_id}"  # with a context of its own: the turn whose end starts it may be another's
        turn.run_task = asyncio.create_task(self._run_and_release(turn), name=name, context=Context())

    async def _run_and_release(self, turn: Turn) -> None:
        try:
            await self._run(turn, self)
        except asyncio.CancelledError:
            log.info("turn interrupted", message_id=turn.message_id, reason=turn.end.stop_reason)
        except Exception:
            log.exception("the end of a turn could not be recorded", message_id=turn.message_id)
        finally:
            self._adjust_slots(turn, -1)
            if turn.state == "waiting":
                turn.measure()
                self._start_wait_timer(turn, 0.0)
                turn.paused_or_ended.set()
                self._fill()
            else:
                self._on_ended(turn)

    def _on_ended(self, turn: Turn) -> None:
        if turn.end.outcome is not None:
            log_end(turn)
            failed = turn.end.outcome.in_error
            cancelled = turn.end.outcome.status == "cancelled"
            if failed:
                self.queues.paused.add(turn.session.id)
            facts = {"reason": "abort" if cancelled else "error" if failed else "finish", "pending_approval": False}
            self._events.emit("turn-finished", turn.session.principal, **turn.event_facts(), **facts)
        elif turn.admission.done:
            turn.stream.interrupt()
        turn.mark_ended()
        self._remove(turn)


async def _wait_for_admissions(turns: Iterable[Turn]) -> None:
    """Wait until each turn is either admitted or refused."""
    under_way = [
        turn.admission.write for turn in turns if turn.admission.write is not None and not turn.admission.write.done()
    ]
    if under_way:
        await asyncio.wait(under_way)
