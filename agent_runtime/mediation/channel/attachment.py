"""One connection from its first line to its end: who we are, what still holds, and then whatever comes."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable, Coroutine

from agent_common.protocol.work import (
    Ack,
    Attach,
    Cancel,
    ConstraintAck,
    Constraints,
    ConstraintsPayload,
    Control,
    Drain,
    FrameFault,
    LifecycleSignal,
    Nack,
    Offer,
    Ping,
    Pong,
    ResumeOk,
    SignalName,
    UnknownControl,
    Welcome,
    WorkFrame,
    WorkRequest,
    compute_mac,
    new_sid,
    read_frame,
    read_loose_request,
    to_rfc3339,
)
from agent_common.telemetry import logger

from ..constraints.constraint_payload import ActiveConstraints, InvalidConstraints
from ..constraints.constraints import ConstraintService, PushedConstraints
from ..work.turn_worker import refusal_result
from ..work.work_service import WorkService
from .connection import ChannelLost, FrameConnection
from .identity import Identity

log = logger(__name__)
ATTACHED_SECONDS = 0.25
"""A connection that lasts this long counts as attached, even if the host has sent nothing
(docs/protocols/mediation.md#25-states-of-a-connection)."""
WELCOME_SECONDS = 10.0
"""A host that has welcomed this workspace before is given so long to do it again: it may say that we are a stale copy,
and until then its silence is no consent. Work that comes without a welcome is."""
GREETING_SECONDS = 30.0
"""From our `ready` to the end of a greeting that the host has begun."""
STOP_SECONDS = 20.0
"""For what is stopped by urgent constraints to end, before they are acknowledged all the same."""
SILENT_BEATS = 3
MIN_HEARTBEAT_SECONDS = 1.0
"""Seconds; a host that wants to hear of us more often does not."""
MAX_PENDING_CONSTRAINTS = 8
"""Constraints that wait to be taken up."""
FENCED = frozenset({"superseded", "fenced"})
"""What a host says to the elder of two copies."""


class ChannelAttachment:
    """Runs on a link. `ready` is told once work may come."""

    def __init__(
        self,
        connection: FrameConnection,
        identity: Identity,
        work_service: WorkService,
        constraints: ConstraintService,
        *,
        epoch: int,
        on_attached: Callable[[], None],
        on_ready: Callable[[], None],
        on_epoch: Callable[[int], asyncio.Future[None]],
    ) -> None:
        self.connection, self._identity, self._work_service, self._constraints = (
            connection,
            identity,
            work_service,
            constraints,
        )
        self._clock = work_service.clock
        self._on_attached, self._on_ready, self._on_epoch = on_attached, on_ready, on_epoch
        self._offer = Offer(identity.window, identity.max_line, new_sid(), epoch)
        self.welcome: Welcome | None = None
        self.attached = self.ready = self.fenced = False
        self._pings = 0
        self._draining: asyncio.Task[None] | None = None
        self._helpers: set[asyncio.Task[None]] = set()

    async def run(self, previous_break: str | None) -> str:
        """Until the connection ends; why it did. `broke` is why the last one did."""
        self._send_greeting(previous_break)
        self._spawn(self._end_greeting_in_time(), "attach")
        try:
            async for value in self.connection.frames():
                if not self.attached:
                    self._mark_attached()
                await self._receive(value)
            return self.connection.break_reason or "the host has closed the connection"
        except ChannelLost as error:
            return str(error)
        finally:
            for helper in self._helpers:
                helper.cancel()
            await asyncio.gather(*self._helpers, return_exceptions=True)
            self._work_service.paused = None  # it was a wish of this connection
            self._work_service.detach()
            await self.connection.close()

    def send_signal(self, name: SignalName, *, detail: str | None = None, error: str | None = None) -> None:
        now = to_rfc3339(self._clock.now_ms())
        self.connection.send(
            LifecycleSignal(
                signal=name, agent_id=self._work_service.outbox.agent_id, observed_at=now, detail=detail, error=error
            )
        )

    def acknowledge_constraints(self, constraints: ActiveConstraints) -> None:
        now = to_rfc3339(self._clock.now_ms())
        self.connection.send(
            ConstraintAck(
                version=constraints.version,
                hash=constraints.hash,
                agent_id=self._work_service.outbox.agent_id,
                observed_at=now,
            )
        )

    # -- the beginning

    def _send_greeting(self, previous_break: str | None) -> None:
        held, fault = self._constraints.active, self._constraints.fault
        if previous_break is not None:
            self.send_signal("mediation_broken", detail=previous_break[:1000])
        if held.hash and fault is None:
            self.acknowledge_constraints(held)
        self.send_signal("ready", detail=None if self._identity.loose else str(self._offer))
        if fault is not None:
            self.send_signal("constraints_outdated", error=fault[:1000])

    async def _end_greeting_in_time(self) -> None:
        """A host that does not speak our extensions says nothing until it has work: after a moment we take it so."""
        await asyncio.sleep(ATTACHED_SECONDS)
        self._mark_attached()
        if self.welcome is None and self._offer.epoch and not self._identity.loose:
            await asyncio.sleep(WELCOME_SECONDS)
        if self.welcome is None:
            self._mark_ready(None)
        await asyncio.sleep(GREETING_SECONDS)
        if not self.ready:
            self.connection.abort("the host has begun a greeting and not ended it")

    def _mark_attached(self) -> None:
        if not self.attached:
            self.attached = True
            self._on_attached()

    def _mark_ready(self, verdicts: ResumeOk | None) -> None:
        """From here on results go out, and work may come."""
        if not self.ready or verdicts is not None:
            self.ready = True
            self._work_service.attach(self.connection, verdicts)
            self._spawn(self._open_gate(), "gate")

    async def _open_gate(self) -> None:
        """What the host has taken back must have stopped before anything takes effect again."""
        await self._work_service.finish_forgotten()
        self._on_ready()

    # -- frames

    async def _receive(self, value: dict[str, object] | FrameFault) -> None:
        try:
            if isinstance(value, FrameFault):
                raise value
            frame = self._read(value)
        except FrameFault as fault:
            self._report_fault(value if isinstance(value, dict) else {}, fault)
            self.connection.count_fault(fault)
            return
        await self._dispatch(frame)

    def _read(self, value: dict[str, object]) -> WorkFrame:
        if self._identity.loose and "principal" in value and "ctl" not in value:
            now, version = to_rfc3339(self._clock.now_ms()), self._constraints.active.version
            return read_loose_request(value, now=now, constraints_version=version)
        return read_frame(value)

    async def _dispatch(self, frame: WorkFrame) -> None:
        match frame:
            case WorkRequest():
                await self._handle_work(frame)
            case Constraints():
                self._handle_constraints(frame)
            case Control():
                await self._handle_control(frame)
            case UnknownControl():
                log.info("an extension that is not known", ctl=frame.ctl)
            case _:
                self.connection.count_fault(
                    FrameFault("unexpected_frame", f"{type(frame).__name__} is not for a guest")
                )

    async def _handle_control(self, frame: Control) -> None:
        match frame:
            case Welcome():
                await self._handle_welcome(frame)
            case ResumeOk() if self.welcome is not None:
                self._mark_ready(frame)
            case ConstraintsPayload():
                self._constraints.receive_payload(frame)
            case Cancel():
                self._work_service.cancel(frame)
            case Ack():
                await self._work_service.outbox.acknowledge_soon(frame.request_id)
            case Drain():
                self._work_service.paused = "the host drains this agent"
                if self._draining is not None:
                    self._draining.cancel()
                self._draining = self._spawn(self._drain(frame.deadline_s), "drain")
            case Ping():
                self.connection.send(Pong(n=frame.n))
            case Nack():
                self._handle_nack(frame)
            case _:
                log.debug("a control frame that asks nothing of us", ctl=frame.ctl)

    async def _handle_work(self, request: WorkRequest) -> None:
        if not self.ready and self.welcome is None:
            self._mark_ready(None)
        if not self.ready:
            self._refuse_during_greeting(request)
        else:
            self._work_service.submit(request)

    async def _handle_welcome(self, welcome: Welcome) -> None:
        if self.welcome is not None:
            raise ChannelLost("the host has welcomed us twice")
        self.welcome = welcome
        self._spawn(self._send_heartbeats(max(MIN_HEARTBEAT_SECONDS, welcome.heartbeat_s)), "heartbeat")
        self.connection.max_line = welcome.max_line
        self._work_service.outbox.agent_id = welcome.agent_id
        kept = self._on_epoch(welcome.epoch)
        if welcome.challenge is not None:
            key = await asyncio.to_thread(self._identity.read_key)
            mac = compute_mac(
                key,
                challenge=welcome.challenge,
                sid=self._offer.sid,
                agent_id=welcome.agent_id,
                epoch=welcome.epoch,
            )
            self.connection.send(Attach(sid=self._offer.sid, mac=mac))
        # Who has answered a greeting and comes back with an older epoch is a stale copy: the next life must know it.
        await asyncio.wait([kept])
        self.connection.send(await self._work_service.resume_frame())

    def _handle_constraints(self, frame: Constraints) -> None:
        pushed = self._constraints.match_payload(frame)
        if self._work_service.pending_constraints >= MAX_PENDING_CONSTRAINTS:
            self.send_signal(
                "constraints_outdated", error=f"constraints_busy: {MAX_PENDING_CONSTRAINTS} versions wait already"
            )
        else:
            self._work_service.pending_constraints += 1
            self._spawn(self._apply_constraints(pushed), "constraints").add_done_callback(self._on_constraints_done)

    def _on_constraints_done(self, _: asyncio.Task[None]) -> None:
        """However it ended: one that is cancelled before it begins never gets to its own end."""
        self._work_service.pending_constraints -= 1

    async def _apply_constraints(self, pushed: PushedConstraints) -> None:
        """They hold from the moment when nothing runs; urgent ones stop what runs."""
        try:
            if not pushed.urgent:
                await self._work_service.wait_idle()
            held = await self._constraints.apply(pushed)
            if pushed.urgent:
                await self._work_service.stop_all("constraints")
                await self._work_service.flush_results(STOP_SECONDS)
        except InvalidConstraints as error:
            log.error("constraints were refused", code=error.code, error=str(error))
            self.send_signal("constraints_outdated", error=f"{error.code}: {error}"[:1000])
        except OSError as error:
            log.error("constraints could not be kept", error=str(error))
            self.send_signal("constraints_outdated", error=f"constraints_not_kept: {error}"[:1000])
        else:
            self.acknowledge_constraints(held)

    def _handle_nack(self, nack: Nack) -> None:
        log.warning("the host could not take a frame", code=nack.code, request_id=nack.request_id, detail=nack.detail)
        if nack.code in FENCED:
            self.fenced = True
            raise ChannelLost(f"another life of this workspace is attached ({nack.code})")

    def _report_fault(self, value: dict[str, object], fault: FrameFault) -> None:
        """A host that cannot be told by an extension hears of a bad request by its result."""
        if self.welcome is not None:
            self.connection.send(Nack(code=fault.code, request_id=fault.request_id, detail=str(fault)[:1000]))
        elif fault.request_id is not None and "principal" in value:
            request_like = _placeholder_request(
                fault.request_id, str(value.get("audit_ref", ""))[:500], self._clock.now_ms()
            )
            self.connection.send(refusal_result(request_like, "invalid_request", str(fault), self._clock.now_ms()))

    def _refuse_during_greeting(self, request: WorkRequest) -> None:
        self.connection.send(refusal_result(request, "draining", "the greeting is not over", self._clock.now_ms()))

    # -- keeping alive, and the end

    async def _send_heartbeats(self, every: float) -> None:
        """Asks a host that has welcomed us for a sign of life, and takes its silence for the end. Counts what it has
        asked without an answer, and not seconds: a machine that stood still itself has heard nothing either."""
        asked_at, missed = -math.inf, 0
        while True:
            await asyncio.sleep(every)
            missed = missed + 1 if self.connection.last_received_at < asked_at else 0
            if missed >= SILENT_BEATS - 1:
                self.connection.abort(f"the host has said nothing for {every * SILENT_BEATS:g} s")
                return
            asked_at = self._clock.monotonic()
            self._pings += 1
            self.connection.send(Ping(n=self._pings), droppable=True)

    async def _drain(self, seconds: float) -> None:
        """The host asks us to finish and to close: it must not do so itself, for that cuts both directions."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._work_service.wait_idle()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ATTACHED_SECONDS * 4):
                await self.connection.flush()
        self._work_service.paused = None
        self.connection.abort("drained at the host's wish")

    def _spawn(self, work: Coroutine[object, object, None], name: str) -> asyncio.Task[None]:
        """Owned by the connection: it ends with it."""
        task = asyncio.create_task(work, name=f"mediation {name}")
        self._helpers.add(task)
        task.add_done_callback(self._helpers.discard)
        return task


def _placeholder_request(request_id: str, audit_ref: str, now: int) -> WorkRequest:
    """A request of which only the id could be read."""
    return WorkRequest.model_validate(
        {
            "request_id": request_id,
            "principal": {"name": "unknown", "kind": "service", "verified": False},
            "content": "",
            "constraints_version": 0,
            "submitted_at": to_rfc3339(now),
            "audit_ref": audit_ref,
        }
    )
