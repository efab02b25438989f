"""A small agent for the mediation channel, to test a host with.

    agent = StubAgent("tcp://127.0.0.1:9900")
    task = asyncio.create_task(agent.run())

It answers `pong`; to `sleep:SECONDS` after that time; to `tool` after a call of a tool. It keeps its ledger in memory.
Override a method to change its behaviour: `send` gets every frame that it sends, `on_frame` every frame that it reads.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import random
from dataclasses import dataclass, field
from typing import Any

from agent_common.clock import SystemClock
from agent_common.net import open_endpoint, parse_endpoint
from agent_common.protocol.work import (
    Ack,
    Cancel,
    Constraints,
    ConstraintsPayload,
    Drain,
    FrameFault,
    Lines,
    Nack,
    Offer,
    Ping,
    ResultStatus,
    ResumeOk,
    TaskAck,
    Welcome,
    WorkRequest,
    WorkResult,
    WorkUsage,
    compute_mac,
    new_sid,
    payload_hash,
    read_frame,
    read_loose_request,
    verify_host_mac,
)

from .connection import PeerConnection
from .frames import Dialect, Frame, is_request, now, result_frame, signal_frame
from .work import carry_out, result_of

STEADY_SECONDS = 10.0
"""After a connection of this length the next one is dialed as soon as the first."""


@dataclass(slots=True)
class StubEntry:
    """A request of the agent's ledger."""

    request: WorkRequest
    result: WorkResult | None = None
    sent: bool = False
    acked: bool = False
    """Whether the host has the result, or does not want it."""
    progress: int = 0
    task: asyncio.Task[None] | None = None


@dataclass
class StubAgent:
    """An agent that dials the host and works for it, until it is cancelled or drained."""

    url: str
    agent_id: str = "stub"
    dialect: Dialect = "strict"
    key: bytes | None = None
    """The workspace's key; None proves nothing."""
    constraints: bytes | None = None
    """Payload of version 1; None means no constraints, and version 0."""
    extensions: bool = True
    backoff: tuple[float, float] = (0.1, 5.0)
    """Seconds before a new connection: at first, and at most."""
    window: int = 1
    max_line: int = 1 << 20
    answer: str = "pong"
    ledger: dict[str, StubEntry] = field(default_factory=dict[str, StubEntry])
    reports: dict[str, Frame] = field(default_factory=dict[str, Frame])
    """Ends of tasks that the host has not acknowledged, by the id of the task."""
    link: PeerConnection | None = None
    """The connection; None between two."""
    broken: str | None = None
    """Why the last connection ended."""
    drained: bool = False

    def __post_init__(self) -> None:
        self.version = 0
        self.hash = ""
        self.epoch = 0
        if self.constraints is not None:
            self.version = 1
            self.hash = payload_hash(self.constraints)
        self._begin_connection()

    def _begin_connection(self) -> None:
        self.sid = self.new_sid()
        self.known_as = self.agent_id
        self.welcome: Welcome | None = None
        self.resumed = self.draining = False
        self._pushed: ConstraintsPayload | None = None
        self._heartbeat: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Dial, work and dial again; return when drained."""
        loop = asyncio.get_running_loop()
        first, most = self.backoff
        delay = first
        try:
            while not self.drained:
                began = loop.time()
                await self.connect_once()
                delay = first if loop.time() - began >= STEADY_SECONDS else delay
                await asyncio.sleep(random.uniform(0, delay))  # noqa: S311
                delay = min(delay * 2, most)
        finally:
            tasks = [entry.task for entry in self.ledger.values() if entry.task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def connect_once(self) -> None:
        """Work over one connection until it ends."""
        try:
            reader, writer = await open_endpoint(parse_endpoint(self.url))
        except (OSError, TimeoutError) as error:
            self.broken = self.broken or str(error)
            return
        self._begin_connection()
        self.link = link = PeerConnection(reader, writer, "stub agent", self.new_lines())
        link.on_frame = self.on_frame
        link.on_fault = self.on_fault
        try:
            for frame in self.hello():
                self.send(frame)
            if not self._offers:
                self._apply_verdicts({})
            self.broken = await link.ended()
        finally:
            self.link = None
            if self._heartbeat is not None:
                self._heartbeat.cancel()
            await link.close()

    def new_sid(self) -> str:
        return new_sid()

    def new_lines(self) -> Lines:
        """Return a reader that splits the stream of a connection into lines."""
        return Lines(self.max_line)

    # ---------------------------------------------------------------- sending

    def send(self, frame: Frame) -> None:
        if self.link is not None:
            self.link.post(frame)

    def signal(self, name: str, **more: Any) -> None:
        self.send(signal_frame(self.dialect, self.known_as, name, **more))

    @property
    def _offers(self) -> bool:
        return self.extensions and self.dialect == "strict"

    def hello(self) -> list[Frame]:
        """Return the frames that open a connection."""
        frames: list[Frame] = []
        if self.dialect == "strict":
            if self.broken:
                detail = self.broken[:200]
                frames.append(signal_frame("strict", self.known_as, "mediation_broken", detail=detail))
            if self.hash:
                frames.append(self._constraint_ack())
        offered = Offer(self.window, self.max_line, self.sid, self.epoch, task_results=True)
        offer = {"detail": str(offered)} if self._offers else {}
        return [*frames, signal_frame(self.dialect, self.known_as, "ready", **offer)]

    def _constraint_ack(self) -> Frame:
        return {"version": self.version, "hash": self.hash, "agent_id": self.known_as, "observed_at": now()}

    def deliver(self, entry: StubEntry) -> None:
        """Send a result, and that its slot is free. Without a connection it waits for the next."""
        result = entry.result
        if result is None or self.link is None or not self.resumed:
            return
        frame = result.model_dump(exclude_none=True)
        if self.dialect == "loose":
            frame = result_frame("loose", frame, result.status, result.content or result.error)
        self.send(frame)
        self.signal("completed", request_id=result.request_id)
        entry.sent = True
        if self.draining:
            self._end_drain()

    def end_task(self, task_id: str, user: str = "operator") -> None:
        """End a task that was not given over the channel, and report it until the host acknowledges it."""
        result = {"task_id": task_id, "status": "complete", "result": {"text": self.answer}}
        about = {"task_id": task_id, "user": user, "finished_at": SystemClock().now_ms(), "result": result}
        self.reports[task_id] = {"ctl": "task_result", **about}
        self.report(task_id)

    def report(self, task_id: str) -> None:
        """Send the report if the host takes it now."""
        if self.resumed and self.welcome is not None and self.welcome.task_results:
            self.send(self.reports[task_id])

    # ---------------------------------------------------------------- reading

    def on_fault(self, fault: FrameFault) -> None:
        if self.link is not None and self.link.too_many_faults():
            self.link.hang_up(f"too many bad lines came, the last one: {fault}")

    def on_frame(self, frame: Frame) -> None:
        """Act on a frame. Raises FrameFault."""
        if self.dialect == "loose" and is_request(frame) and isinstance(frame["principal"], str):
            self.start(read_loose_request(frame, now=now(), constraints_version=self.version))
            return
        match found := read_frame(frame):
            case _ if self.key is not None and self.welcome is None and not isinstance(found, Welcome | Nack):
                self.refuse_host()
            case WorkRequest():
                if self.welcome is None and not self.resumed:
                    self._apply_verdicts({})  # the host does not know the extensions
                self.start(found)
            case Constraints():
                self._apply_constraints(found)
            case _ if "ctl" in frame:
                self._on_control(found)
            case _:
                pass

    def _on_control(self, frame: object) -> None:
        match frame:
            case Welcome():
                self._on_welcome(frame)
            case ResumeOk():
                self._apply_verdicts(dict(frame.verdicts))
                for task_id in list(self.reports):
                    self.report(task_id)
            case TaskAck():
                self.reports.pop(frame.task_id, None)
            case Ping():
                self.send({"ctl": "pong", "n": frame.n})
            case ConstraintsPayload():
                self._pushed = frame
            case Ack() if frame.request_id in self.ledger:
                self.ledger[frame.request_id].acked = True
            case Cancel():
                self._cancel(frame.request_id)
            case Drain():
                self.draining = True
                self._end_drain()
            case _:
                pass

    def is_proof(self, welcome: Welcome, key: bytes) -> bool:
        """Return whether the host has proved that it has the key."""
        name = welcome.agent_id
        epoch = welcome.epoch
        return verify_host_mac(welcome.mac, key, challenge=welcome.challenge, sid=self.sid, agent_id=name, epoch=epoch)

    def _on_welcome(self, welcome: Welcome) -> None:
        if self.key is not None and not self.is_proof(welcome, self.key):
            self.refuse_host()
            return
        self.welcome = welcome
        self.known_as = welcome.agent_id
        self.epoch = welcome.epoch
        if welcome.challenge and self.key is not None:
            agent_id = welcome.agent_id
            epoch = welcome.epoch
            mac = compute_mac(self.key, challenge=welcome.challenge, sid=self.sid, agent_id=agent_id, epoch=epoch)
            self.send({"ctl": "attach", "sid": self.sid, "mac": mac})
        self.resume()
        self._heartbeat = asyncio.get_running_loop().create_task(self._send_pings(welcome.heartbeat_s))

    def refuse_host(self) -> None:
        """Leave a host that has not proved that it has the key."""
        if self.link is not None:
            self.link.hang_up("the host has not proved that it has the key")

    def resume(self) -> None:
        """Send `resume` with the requests that are still in the ledger."""
        unacked = [name for name, entry in self.ledger.items() if entry.result is not None and not entry.acked]
        self.send({"ctl": "resume", "running": self.running, "unacked": unacked})

    @property
    def running(self) -> list[str]:
        return [name for name, entry in self.ledger.items() if entry.result is None]

    def _apply_verdicts(self, verdicts: dict[str, str]) -> None:
        self.resumed = True
        for name, entry in list(self.ledger.items()):
            verdict = verdicts.get(name)
            if entry.acked:
                continue
            if verdict in ("cancel", "forget"):
                entry.acked = True
                self._cancel(name)
            elif self.welcome is not None or not entry.sent:
                self.deliver(entry)

    def is_silent(self, seconds: float) -> bool:
        """Return whether nothing has come for too long."""
        return self.link is not None and asyncio.get_running_loop().time() - self.link.last_received > seconds

    async def _send_pings(self, seconds: float) -> None:
        number = 0
        while True:
            await asyncio.sleep(seconds)
            number += 1
            self.send({"ctl": "ping", "n": number})
            if self.is_silent(3 * seconds) and self.link is not None:
                self.link.hang_up("the host was silent")

    def _apply_constraints(self, frame: Constraints) -> None:
        pushed = self._pushed
        self._pushed = None
        if pushed is None or pushed.version != frame.version:
            return
        try:
            found = payload_hash(base64.b64decode(pushed.b64, validate=True))
        except (ValueError, binascii.Error):
            return
        if found == frame.hash:
            self.version = frame.version
            self.hash = found
            self.send(self._constraint_ack())

    def _end_drain(self) -> None:
        if not self.running and self.link is not None:
            self.drained = True
            self.link.hang_up("drained")

    # ---------------------------------------------------------------- work

    def start(self, request: WorkRequest) -> None:
        """Begin the work, join it, repeat its result, or refuse it."""
        known = self.ledger.get(request.request_id)
        if known is not None and known.request.fingerprint() != request.fingerprint():
            self._refuse(request, "failed", "request_id_conflict: the id was used for other work")
        elif known is not None and known.result is not None:
            self.deliver(known)
        elif known is None and (error := self.refusal(request)):
            self._refuse(request, "denied", error)
        else:
            self.signal("accepting", request_id=request.request_id)
            if known is None:
                entry = self.ledger[request.request_id] = StubEntry(request)
                entry.task = asyncio.get_running_loop().create_task(self._work(entry))

    def refusal(self, request: WorkRequest) -> str | None:
        """Return why the request is denied, or None."""
        if self.dialect == "loose":
            return None
        if not request.principal.verified:
            return "unverified_principal: the identity is not verified"
        if request.constraints_version != self.version:
            self.signal("constraints_outdated", request_id=request.request_id)
            return "constraints_outdated: other constraints hold here"
        if request.bounds and request.bounds.max_egress_bytes is not None:
            return "unsupported_bound:max_egress_bytes"
        return "draining: no new work" if self.draining else None

    def _refuse(self, request: WorkRequest, status: ResultStatus, error: str) -> None:
        self.send(result_of(request, status, error=error).model_dump(exclude_none=True))

    def _cancel(self, request_id: str) -> None:
        entry = self.ledger.get(request_id)
        if entry is not None and entry.task is not None and entry.result is None:
            entry.task.cancel()

    async def _work(self, entry: StubEntry) -> None:
        def report(usage: WorkUsage) -> None:
            entry.progress += 1
            if self.welcome is not None and self.resumed and not entry.acked:
                about = {"request_id": entry.request.request_id, "seq": entry.progress, "kind": "usage"}
                self.send({"ctl": "progress", **about, "usage": usage.model_dump(exclude_none=True)})

        try:
            entry.result = await carry_out(entry.request, self.answer, report)
        except asyncio.CancelledError:
            entry.result = result_of(entry.request, "failed", error="cancelled: the host has cancelled it")
        if not entry.acked:
            self.deliver(entry)
