"""One connection from its greeting to its end: announce what is running, agree on what still counts, handle frames."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine

from agent_common.protocol.work import (
    Ack,
    ApiOpened,
    Attach,
    Cancel,
    Constraints,
    ConstraintsPayload,
    Control,
    Drain,
    FrameFault,
    Nack,
    Offer,
    OpenApi,
    Ping,
    Pong,
    ResumeOk,
    TaskAck,
    UnknownControl,
    Welcome,
    WorkFrame,
    WorkRequest,
    api_challenge,
    new_sid,
    read_frame,
    read_loose_request,
    to_rfc3339,
)
from agent_common.telemetry import logger

from ..constraints.constraints import ConstraintService
from ..work.turn_worker import refusal_result
from ..work.work_service import WorkService
from .api_connections import ApiConnections
from .connection import ChannelLost, FrameConnection
from .constraint_pushes import ConstraintPushes
from .heartbeat import send_heartbeats
from .identity import NO_PROOF, Identity
from .signals import Signals

log = logger(__name__)
ATTACHED_SECONDS = 0.25
"""A connection that lasts this long counts as attached, even if the host has sent nothing
(docs/protocols/mediation.md#25-states-of-a-connection)."""
WELCOME_SECONDS = 10.0
"""Seconds that a host which has welcomed us before has to do so again: it may declare this guest a stale copy."""
GREETING_SECONDS = 30.0
"""Seconds from our `ready` to the end of a greeting that the host has begun."""
MIN_HEARTBEAT_SECONDS = 1.0
"""Lower limit of the heartbeat interval that a host may ask for."""
FENCED = frozenset({"superseded", "fenced"})
"""Codes by which the host rejects the older of two copies."""


class ChannelAttachment:
    """Serves one connection. `on_ready` is called once work may arrive."""

    def __init__(
        self,
        connection: FrameConnection,
        identity: Identity,
        work_service: WorkService,
        constraints: ConstraintService,
        *,
        api: ApiConnections | None,
        epoch: int,
        on_attached: Callable[[], None],
        on_ready: Callable[[], None],
        on_epoch: Callable[[int], asyncio.Future[None]],
    ) -> None:
        self.connection = connection
        self._identity = identity
        self._work_service = work_service
        self._constraints = constraints
        self._clock = work_service.clock
        self._on_attached = on_attached
        self._on_ready = on_ready
        self._on_epoch = on_epoch
        self._api = api
        self._reporter = work_service.reporter
        self._signals = Signals(connection, self._clock, work_service.outbox)
        self._pushes = ConstraintPushes(constraints, work_service, self._signals)
        extensions = {"task_results": self._reporter is not None, "api": api is not None}
        self._offer = Offer(identity.window, identity.max_line, new_sid(), epoch, **extensions)
        self.welcome: Welcome | None = None
        self.attached = self.fenced = False
        self._ready = asyncio.Event()
        """Set once results may go out and work may come in."""
        self._draining: asyncio.Task[None] | None = None
        self._helpers: set[asyncio.Task[None]] = set()

    async def run(self, previous_break: str | None) -> str:
        """Serve the connection and return the reason of its end. `previous_break` is why the previous one ended."""
        self._send_greeting(previous_break)
        self._spawn(self._end_greeting_in_time(), "attach")
        try:
            async for value in self.connection.frames():
                if not self._identity.has_key:
                    self._mark_attached()
                await self._receive(value)
            return self.connection.break_reason or "the host has closed the connection"
        except ChannelLost as error:
            return str(error)
        finally:
            for helper in self._helpers:
                helper.cancel()
            if self._api is not None:
                self._api.close()
            await asyncio.gather(*self._helpers, return_exceptions=True)
            await self._pushes.close()
            self._work_service.paused = None  # a pause ends with the connection that asked for it
            self._work_service.detach()
            if self._reporter is not None:
                self._reporter.detach()
            await self.connection.close()

    # -- greeting

    def _send_greeting(self, previous_break: str | None) -> None:
        held = self._constraints.active
        fault = self._constraints.fault
        if previous_break is not None:
            self._signals.send("mediation_broken", detail=previous_break[:1000])
        if held.hash and fault is None:
            self._signals.acknowledge(held)
        self._signals.send("ready", detail=None if self._identity.loose else str(self._offer))
        if fault is not None:
            self._signals.send("constraints_outdated", error=fault[:1000])

    async def _end_greeting_in_time(self) -> None:
        """Regard the host as attached after a moment: without extensions it is silent until it has work. One that must
        prove who it is has to greet us."""
        if self._identity.has_key:
            await asyncio.sleep(WELCOME_SECONDS)
            if self.welcome is None:
                self.connection.abort(NO_PROOF)
                return
        await asyncio.sleep(ATTACHED_SECONDS)
        self._mark_attached()
        if self.welcome is None and self._offer.epoch and not self._identity.loose:
            await asyncio.sleep(WELCOME_SECONDS)
        if self.welcome is None:
            self._mark_ready(None)
        await asyncio.sleep(GREETING_SECONDS)
        if not self._ready.is_set():
            self.connection.abort("the host has begun a greeting and not ended it")

    def _mark_attached(self) -> None:
        if not self.attached:
            self.attached = True
            self._on_attached()

    def _mark_ready(self, verdicts: ResumeOk | None) -> None:
        """Let results go out and work come in."""
        if not self._ready.is_set() or verdicts is not None:
            self._ready.set()
            self._work_service.attach(self.connection, verdicts)
            if self._reporter is not None:
                takes = self.welcome is not None and self.welcome.task_results
                self._reporter.attach(self.connection if takes else None)
            self._spawn(self._open_gate(), "gate")

    async def _open_gate(self) -> None:
        """Open the gate for side effects, after the work that the host has withdrawn has stopped."""
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
            now = to_rfc3339(self._clock.now_ms())
            version = self._constraints.active.version
            return read_loose_request(value, now=now, constraints_version=version)
        return read_frame(value)

    async def _dispatch(self, frame: WorkFrame) -> None:
        if self.welcome is None and self._identity.has_key and not isinstance(frame, Welcome | Nack):
            raise ChannelLost(NO_PROOF)
        match frame:
            case WorkRequest():
                await self._handle_work(frame)
            case Constraints():
                self._pushes.receive(frame)
            case Control():
                await self._handle_control(frame)
            case UnknownControl():
                log.info("ignored an unknown extension", ctl=frame.ctl)
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
            case Ack() | TaskAck():
                await self._handle_ack(frame)
            case Drain():
                self._handle_drain(frame)
            case OpenApi() if self._api is not None and self.welcome is not None:
                self._handle_open_api(frame, self._api, self.welcome)
            case Ping():
                self.connection.send(Pong(n=frame.n))
            case Nack():
                self._handle_nack(frame)
            case _:
                log.debug("ignored a control frame", ctl=frame.ctl)

    async def _handle_work(self, request: WorkRequest) -> None:
        if not self._ready.is_set() and self.welcome is None:
            self._mark_ready(None)
        if not self._ready.is_set():
            self._refuse_during_greeting(request)
        else:
            self._work_service.submit(request)

    async def _handle_welcome(self, welcome: Welcome) -> None:
        if self.welcome is not None:
            raise ChannelLost("the host has sent a second welcome")
        if self._identity.has_key:
            await self._identity.check_host(welcome, self._offer.sid)
            self._mark_attached()
        self.welcome = welcome
        every = max(MIN_HEARTBEAT_SECONDS, welcome.heartbeat_s)
        self._spawn(send_heartbeats(self.connection, self._clock, every), "heartbeat")
        self.connection.max_line = welcome.max_line
        self._work_service.outbox.agent_id = welcome.agent_id
        kept = self._on_epoch(welcome.epoch)
        if welcome.challenge is not None:
            mac = await self._identity.answer(welcome, self._offer.sid, welcome.challenge)
            self.connection.send(Attach(sid=self._offer.sid, mac=mac))
        # A guest that returns with an older epoch than it has confirmed counts as a stale copy, so the epoch is stored
        # first.
        await asyncio.wait([kept])
        self.connection.send(await self._work_service.resume_frame())

    def _handle_open_api(self, frame: OpenApi, api: ApiConnections, welcome: Welcome) -> None:
        if api.full:
            self.connection.send(Nack(code="too_many_connections", detail="the agent opens no more connections"))
        else:
            self._spawn(self._open_api(frame, api, welcome), "api")

    async def _open_api(self, frame: OpenApi, api: ApiConnections, welcome: Welcome) -> None:
        try:
            proof = welcome.challenge and await self._identity.answer(welcome, self._offer.sid, api_challenge(frame.id))
            await api.open(ApiOpened(id=frame.id, agent_id=welcome.agent_id, mac=proof))
        except (OSError, ChannelLost) as error:
            log.warning("a connection for the host could not be opened", error=str(error))

    async def _handle_ack(self, ack: Ack | TaskAck) -> None:
        if isinstance(ack, Ack):
            await self._work_service.outbox.acknowledge_soon(ack.request_id)
        elif self._reporter is not None:
            await self._reporter.acknowledge(ack)

    def _handle_drain(self, frame: Drain) -> None:
        self._work_service.paused = "the host drains this agent"
        if self._draining is not None:
            self._draining.cancel()
        self._draining = self._spawn(self._drain(frame.deadline_s), "drain")

    def _handle_nack(self, nack: Nack) -> None:
        log.warning("the host could not take a frame", code=nack.code, request_id=nack.request_id, detail=nack.detail)
        if nack.code in FENCED:
            self.fenced = True
            raise ChannelLost(f"another instance of this workspace is attached ({nack.code})")

    def _report_fault(self, value: dict[str, object], fault: FrameFault) -> None:
        """Report an invalid frame by a nack, or by the result of its request to a host without extensions."""
        if self.welcome is not None:
            self.connection.send(Nack(code=fault.code, request_id=fault.request_id, detail=str(fault)[:1000]))
        elif fault.request_id is not None and "principal" in value:
            request_like = _placeholder_request(
                fault.request_id, str(value.get("audit_ref", ""))[:500], self._clock.now_ms()
            )
            self.connection.send(refusal_result(request_like, "invalid_request", str(fault), self._clock.now_ms()))

    def _refuse_during_greeting(self, request: WorkRequest) -> None:
        self.connection.send(refusal_result(request, "draining", "the greeting is not over", self._clock.now_ms()))

    # -- shutdown

    async def _drain(self, seconds: float) -> None:
        """Finish the work and close the connection, as the host asked: if it closed it, both directions would be
        cut."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._ready.wait()  # the host may drain before it has answered `resume`
                await self._work_service.wait_idle()
                await self._work_service.wait_resent()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ATTACHED_SECONDS * 4):
                await self.connection.flush()
        self._work_service.paused = None
        self.connection.abort("drained at the host's wish")

    def _spawn(self, work: Coroutine[object, object, None], name: str) -> asyncio.Task[None]:
        """Start a task that ends with the connection."""
        task = asyncio.create_task(work, name=f"mediation {name}")
        self._helpers.add(task)
        task.add_done_callback(self._helpers.discard)
        return task


def _placeholder_request(request_id: str, audit_ref: str, now: int) -> WorkRequest:
    """Return a request for a frame of which only the id could be read."""
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
