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
    loose_request,
    mac_of,
    new_sid,
    read_frame,
    stamp,
)
from agent_common.telemetry import logger

from ..constraints.constraint_payload import ActiveConstraints, InvalidConstraints
from ..constraints.constraints import ConstraintService, PushedConstraints
from ..work.turn_worker import refused
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
SHORTEST_BEAT = 1.0
"""Seconds; a host that wants to hear of us more often does not."""
MOST_CHANGES = 8
"""Constraints that wait to be taken up."""
FENCED = frozenset({"superseded", "fenced"})
"""What a host says to the elder of two copies."""


class ChannelAttachment:
    """Runs on a link. `ready` is told once work may come."""

    def __init__(
        self,
        link: FrameConnection,
        identity: Identity,
        clerk: WorkService,
        constraints: ConstraintService,
        *,
        epoch: int,
        on_attached: Callable[[], None],
        on_ready: Callable[[], None],
        on_epoch: Callable[[int], asyncio.Future[None]],
    ) -> None:
        self.link, self._me, self._clerk, self._constraints = link, identity, clerk, constraints
        self._clock = clerk.clock
        self._on_attached, self._on_ready, self._on_epoch = on_attached, on_ready, on_epoch
        self._offer = Offer(identity.window, identity.max_line, new_sid(), epoch)
        self.welcome: Welcome | None = None
        self.attached = self.ready = self.fenced = False
        self._pings = 0
        self._draining: asyncio.Task[None] | None = None
        self._helpers: set[asyncio.Task[None]] = set()

    async def run(self, broke: str | None) -> str:
        """Until the connection ends; why it did. `broke` is why the last one did."""
        self._greet(broke)
        self._spawn(self._settle_in(), "attach")
        try:
            async for value in self.link.frames():
                if not self.attached:
                    self._attach()
                await self._hear(value)
            return self.link.broken or "the host has closed the connection"
        except ChannelLost as error:
            return str(error)
        finally:
            for helper in self._helpers:
                helper.cancel()
            await asyncio.gather(*self._helpers, return_exceptions=True)
            self._clerk.paused = None  # it was a wish of this connection
            self._clerk.detached()
            await self.link.close()

    def signal(self, name: SignalName, *, detail: str | None = None, error: str | None = None) -> None:
        now = stamp(self._clock.now_ms())
        self.link.send(
            LifecycleSignal(
                signal=name, agent_id=self._clerk.outbox.agent_id, observed_at=now, detail=detail, error=error
            )
        )

    def acknowledge(self, held: ActiveConstraints) -> None:
        now = stamp(self._clock.now_ms())
        self.link.send(
            ConstraintAck(version=held.version, hash=held.hash, agent_id=self._clerk.outbox.agent_id, observed_at=now)
        )

    # -- the beginning

    def _greet(self, broke: str | None) -> None:
        held, fault = self._constraints.held, self._constraints.fault
        if broke is not None:
            self.signal("mediation_broken", detail=broke[:1000])
        if held.hash and fault is None:
            self.acknowledge(held)
        self.signal("ready", detail=None if self._me.loose else str(self._offer))
        if fault is not None:
            self.signal("constraints_outdated", error=fault[:1000])

    async def _settle_in(self) -> None:
        """A host that does not speak our extensions says nothing until it has work: after a moment we take it so."""
        await asyncio.sleep(ATTACHED_SECONDS)
        self._attach()
        if self.welcome is None and self._offer.epoch and not self._me.loose:
            await asyncio.sleep(WELCOME_SECONDS)
        if self.welcome is None:
            self._open(None)
        await asyncio.sleep(GREETING_SECONDS)
        if not self.ready:
            self.link.breaks("the host has begun a greeting and not ended it")

    def _attach(self) -> None:
        if not self.attached:
            self.attached = True
            self._on_attached()

    def _open(self, verdicts: ResumeOk | None) -> None:
        """From here on results go out, and work may come."""
        if not self.ready or verdicts is not None:
            self.ready = True
            self._clerk.attached(self.link, verdicts)
            self._spawn(self._let_through(), "gate")

    async def _let_through(self) -> None:
        """What the host has taken back must have stopped before anything takes effect again."""
        await self._clerk.let_go()
        self._on_ready()

    # -- frames

    async def _hear(self, value: dict[str, object] | FrameFault) -> None:
        try:
            if isinstance(value, FrameFault):
                raise value
            frame = self._read(value)
        except FrameFault as fault:
            self._refuse(value if isinstance(value, dict) else {}, fault)
            self.link.fault(fault)
            return
        await self._dispatch(frame)

    def _read(self, value: dict[str, object]) -> WorkFrame:
        if self._me.loose and "principal" in value and "ctl" not in value:
            now, version = stamp(self._clock.now_ms()), self._constraints.held.version
            return loose_request(value, now=now, constraints_version=version)
        return read_frame(value)

    async def _dispatch(self, frame: WorkFrame) -> None:
        match frame:
            case WorkRequest():
                await self._work(frame)
            case Constraints():
                self._constraints_came(frame)
            case Control():
                await self._control(frame)
            case UnknownControl():
                log.info("an extension that is not known", ctl=frame.ctl)
            case _:
                self.link.fault(FrameFault("unexpected_frame", f"{type(frame).__name__} is not for a guest"))

    async def _control(self, frame: Control) -> None:
        match frame:
            case Welcome():
                await self._welcomed(frame)
            case ResumeOk() if self.welcome is not None:
                self._open(frame)
            case ConstraintsPayload():
                self._constraints.expect(frame)
            case Cancel():
                self._clerk.cancel(frame)
            case Ack():
                await self._clerk.outbox.settle_soon(frame.request_id)
            case Drain():
                self._clerk.paused = "the host drains this agent"
                if self._draining is not None:
                    self._draining.cancel()
                self._draining = self._spawn(self._drain(frame.deadline_s), "drain")
            case Ping():
                self.link.send(Pong(n=frame.n))
            case Nack():
                self._nacked(frame)
            case _:
                log.debug("a control frame that asks nothing of us", ctl=frame.ctl)

    async def _work(self, request: WorkRequest) -> None:
        if not self.ready and self.welcome is None:
            self._open(None)
        if not self.ready:
            self._refuse_early(request)
        else:
            self._clerk.take(request)

    async def _welcomed(self, welcome: Welcome) -> None:
        if self.welcome is not None:
            raise ChannelLost("the host has welcomed us twice")
        self.welcome = welcome
        self._spawn(self._beat(max(SHORTEST_BEAT, welcome.heartbeat_s)), "heartbeat")
        self.link.max_line = welcome.max_line
        self._clerk.outbox.agent_id = welcome.agent_id
        kept = self._on_epoch(welcome.epoch)
        if welcome.challenge is not None:
            key = await asyncio.to_thread(self._me.key)
            mac = mac_of(
                key,
                challenge=welcome.challenge,
                sid=self._offer.sid,
                agent_id=welcome.agent_id,
                epoch=welcome.epoch,
            )
            self.link.send(Attach(sid=self._offer.sid, mac=mac))
        # Who has answered a greeting and comes back with an older epoch is a stale copy: the next life must know it.
        await asyncio.wait([kept])
        self.link.send(await self._clerk.resume())

    def _constraints_came(self, frame: Constraints) -> None:
        pushed = self._constraints.pushed(frame)
        if self._clerk.changing >= MOST_CHANGES:
            self.signal("constraints_outdated", error=f"constraints_busy: {MOST_CHANGES} versions wait already")
        else:
            self._clerk.changing += 1
            self._spawn(self._constrain(pushed), "constraints").add_done_callback(self._constrained)

    def _constrained(self, _: asyncio.Task[None]) -> None:
        """However it ended: one that is cancelled before it begins never gets to its own end."""
        self._clerk.changing -= 1

    async def _constrain(self, pushed: PushedConstraints) -> None:
        """They hold from the moment when nothing runs; urgent ones stop what runs."""
        try:
            if not pushed.urgent:
                await self._clerk.idle()
            held = await self._constraints.take(pushed)
            if pushed.urgent:
                await self._clerk.stop_all("constraints")
                await self._clerk.told(STOP_SECONDS)
        except InvalidConstraints as error:
            log.error("constraints were refused", code=error.code, error=str(error))
            self.signal("constraints_outdated", error=f"{error.code}: {error}"[:1000])
        except OSError as error:
            log.error("constraints could not be kept", error=str(error))
            self.signal("constraints_outdated", error=f"constraints_not_kept: {error}"[:1000])
        else:
            self.acknowledge(held)

    def _nacked(self, nack: Nack) -> None:
        log.warning("the host could not take a frame", code=nack.code, request_id=nack.request_id, detail=nack.detail)
        if nack.code in FENCED:
            self.fenced = True
            raise ChannelLost(f"another life of this workspace is attached ({nack.code})")

    def _refuse(self, value: dict[str, object], fault: FrameFault) -> None:
        """A host that cannot be told by an extension hears of a bad request by its result."""
        if self.welcome is not None:
            self.link.send(Nack(code=fault.code, request_id=fault.request_id, detail=str(fault)[:1000]))
        elif fault.request_id is not None and "principal" in value:
            request_like = _shell(fault.request_id, str(value.get("audit_ref", ""))[:500], self._clock.now_ms())
            self.link.send(refused(request_like, "invalid_request", str(fault), self._clock.now_ms()))

    def _refuse_early(self, request: WorkRequest) -> None:
        self.link.send(refused(request, "draining", "the greeting is not over", self._clock.now_ms()))

    # -- keeping alive, and the end

    async def _beat(self, every: float) -> None:
        """Asks a host that has welcomed us for a sign of life, and takes its silence for the end. Counts what it has
        asked without an answer, and not seconds: a machine that stood still itself has heard nothing either."""
        asked_at, missed = -math.inf, 0
        while True:
            await asyncio.sleep(every)
            missed = missed + 1 if self.link.heard_at < asked_at else 0
            if missed >= SILENT_BEATS - 1:
                self.link.breaks(f"the host has said nothing for {every * SILENT_BEATS:g} s")
                return
            asked_at = self._clock.monotonic()
            self._pings += 1
            self.link.send(Ping(n=self._pings), droppable=True)

    async def _drain(self, seconds: float) -> None:
        """The host asks us to finish and to close: it must not do so itself, for that cuts both directions."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._clerk.idle()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ATTACHED_SECONDS * 4):
                await self.link.flushed()
        self._clerk.paused = None
        self.link.breaks("drained at the host's wish")

    def _spawn(self, work: Coroutine[object, object, None], name: str) -> asyncio.Task[None]:
        """Owned by the connection: it ends with it."""
        task = asyncio.create_task(work, name=f"mediation {name}")
        self._helpers.add(task)
        task.add_done_callback(self._helpers.discard)
        return task


def _shell(request_id: str, audit_ref: str, now: int) -> WorkRequest:
    """A request of which only the id could be read."""
    return WorkRequest.model_validate(
        {
            "request_id": request_id,
            "principal": {"name": "unknown", "kind": "service", "verified": False},
            "content": "",
            "constraints_version": 0,
            "submitted_at": stamp(now),
            "audit_ref": audit_ref,
        }
    )
