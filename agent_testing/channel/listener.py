"""A small listener for the mediation channel, to test an agent with.

    async with StubListener("tcp://127.0.0.1:9900") as listener:
        request_id = listener.submit("ping")
        work = await listener.wait_for_result(request_id)

It serves one agent, and keeps its ledger in memory. Override a method of `StubSession` and set `session_type` to make
it behave otherwise: `send` gets every frame that it sends, `on_frame` every frame that it reads.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import Any, Literal

from agent_common.net import parse_endpoint
from agent_common.protocol.work import (
    Attach,
    FrameFault,
    LifecycleSignal,
    Lines,
    Offer,
    Ping,
    Resume,
    TaskReport,
    Verdict,
    Welcome,
    WorkRequest,
    WorkResult,
    compute_host_mac,
    new_challenge,
    read_frame,
    read_loose_result,
    read_loose_signal,
    verify_mac,
)

from .connection import PeerConnection, accept_peers
from .frames import Dialect, Frame, now, request_frame


@dataclass(slots=True)
class StubWork:
    """A request of the listener's ledger."""

    request: WorkRequest
    state: Literal["queued", "dispatched", "accepted", "resulted"] = "queued"
    result: WorkResult | None = None
    times_sent: int = 0
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class StubSession:
    """One connection of an agent."""

    def __init__(self, listener: StubListener, link: PeerConnection) -> None:
        self.listener = listener
        self.link = link
        self.assigned: dict[str, StubWork] = {}
        """The request that the agent works on."""
        self.ready = False
        """Whether the agent may be given work."""
        self.offer: Offer | None = None
        self.challenge: str | None = None
        """The challenge that is not answered yet."""
        self.epoch = 0
        self._heartbeat: asyncio.Task[None] | None = None
        link.on_frame = self.on_frame
        link.on_fault = self.on_fault

    async def run(self) -> None:
        """Serve until the connection ends."""
        seconds = self.first_line_seconds()
        if not await self.link.wait_for(lambda _: True, seconds) and not self.link.faults:
            self.link.hang_up("no first line")
        await self.link.ended()

    def first_line_seconds(self) -> float:
        return self.listener.first_line

    def end(self) -> None:
        """End the connection and queue its agent's work again."""
        if self._heartbeat is not None:
            self._heartbeat.cancel()
        self.link.hang_up()
        self.requeue()

    def requeue(self) -> None:
        for work in self.assigned.values():
            if work.state in ("dispatched", "accepted"):
                work.state = "queued"
        self.assigned.clear()
        if self.listener.current is not None:
            self.listener.current.dispatch()

    def send(self, frame: Frame) -> None:
        self.link.post(frame)

    # ---------------------------------------------------------------- reading

    def on_fault(self, fault: FrameFault) -> None:
        if self.link.too_many_faults():
            self.link.hang_up(f"too many bad lines came, the last one: {fault}")

    def on_frame(self, frame: Frame) -> None:
        """Act on a frame. Raises FrameFault."""
        match self._parse(frame):
            case LifecycleSignal() as signal:
                self.on_signal(signal)
            case WorkResult() as result:
                self.on_result(result)
            case Attach() as attach:
                self._on_attach(attach)
            case Resume() as resume:
                self._on_resume(resume)
            case TaskReport() as report:
                self.on_report(report)
            case Ping() as ping:
                self.send({"ctl": "pong", "n": ping.n})
            case _:
                pass

    def _parse(self, frame: Frame) -> object:
        if "ok" in frame:
            return read_loose_result(frame, now=now(), audit_ref="")
        if "signal" in frame and "observed_at" not in frame:
            return read_loose_signal(frame, now=now(), agent_id=self.listener.workspace)
        return read_frame(frame)

    def on_signal(self, signal: LifecycleSignal) -> None:
        work = self.assigned.get(signal.request_id or "")
        if signal.signal == "ready":
            self.offer = Offer.parse(signal.detail)
            self.on_ready()
        elif signal.signal == "accepting" and work is not None and work.state == "dispatched":
            work.state = "accepted"
        elif signal.signal == "completed" and work is not None:
            del self.assigned[work.request.request_id]
            self.dispatch()

    # ---------------------------------------------------------------- attaching

    def on_ready(self) -> None:
        """Answer an offer with welcome; give work to an agent that makes none, unless it has to prove itself."""
        if self.offer is not None and self.listener.dialect == "strict":
            self.send_welcome()
        elif self.listener.key is None:
            self.start_work()

    def next_epoch(self) -> int:
        return self.listener.epoch + 1

    def send_welcome(self) -> None:
        listener = self.listener
        name = self.listener.workspace
        self.challenge = new_challenge() if listener.key is not None else None
        self.epoch = listener.epoch = self.next_epoch()
        welcome = Welcome(
            workspace=name,
            agent_id=name,
            epoch=self.epoch,
            heartbeat_s=listener.heartbeat,
            max_line=listener.max_line,
            challenge=self.challenge,
            task_results=self.offer is not None and self.offer.task_results,
        )
        if listener.key is not None and self.offer is not None:
            mac = compute_host_mac(
                listener.key, challenge=self.challenge, sid=self.offer.sid, agent_id=name, epoch=self.epoch
            )
            welcome = welcome.model_copy(update={"mac": mac})
        self.send({"ctl": "welcome", **welcome.model_dump(exclude_none=True)})
        self._heartbeat = asyncio.get_running_loop().create_task(self._send_pings())

    def is_proof(self, attach: Attach, sid: str, challenge: str) -> bool:
        """Return whether the agent has proved that it has the key."""
        key = self.listener.key or b""
        name = self.listener.workspace
        return attach.sid == sid and verify_mac(
            attach.mac, key, challenge=challenge, sid=sid, agent_id=name, epoch=self.epoch
        )

    def _on_attach(self, attach: Attach) -> None:
        if self.challenge is not None and self.offer is not None:
            if not self.is_proof(attach, self.offer.sid, self.challenge):
                self.link.hang_up("a wrong MAC came")
            self.challenge = None

    def _on_resume(self, resume: Resume) -> None:
        if self.challenge is not None:
            self.link.hang_up("the challenge was not answered")
            return
        older = self.listener.current
        if older is not None and older is not self:
            self.displace(older)
        verdicts = {name: self.verdict(name, done=False) for name in resume.running}
        verdicts |= {name: self.verdict(name, done=True) for name in resume.unacked}
        for name, verdict in verdicts.items():
            if verdict in ("continue", "resend") and (work := self.listener.ledger.get(name)) is not None:
                work.state = "accepted"
                self.assigned[name] = work
        self.send({"ctl": "resume_ok", "verdicts": verdicts})
        self.start_work()

    def displace(self, older: StubSession) -> None:
        older.end()

    def verdict(self, name: str, *, done: bool) -> Verdict:
        """Return the verdict for a request that the agent still has, running or done."""
        work = self.listener.ledger.get(name)
        if work is None or work.state == "resulted":
            return "forget" if done else "cancel"
        return "resend" if done else "continue"

    async def _send_pings(self) -> None:
        number = 0
        seconds = self.listener.heartbeat
        while True:
            await asyncio.sleep(seconds)
            if self.is_silent(3 * seconds):
                self.link.hang_up("the agent was silent")
            number += 1
            self.send({"ctl": "ping", "n": number})

    def is_silent(self, seconds: float) -> bool:
        """Return whether nothing has come for too long."""
        return asyncio.get_running_loop().time() - self.link.last_received > seconds

    # ---------------------------------------------------------------- work

    def start_work(self) -> None:
        self.ready = True
        self.listener.current = self
        self.dispatch()

    def dispatch(self) -> None:
        """Give the agent a request, if it has none."""
        for name, work in self.listener.ledger.items():
            if not self.is_free() or self.link.closed:
                return
            if work.state == "queued":
                work.state = "dispatched"
                self.assigned[name] = work
                work.times_sent += 1
                frame = work.request.model_dump(exclude_none=True)
                loose = self.listener.dialect == "loose"
                self.send(request_frame("loose", work.request.content, name) if loose else frame)

    def is_free(self) -> bool:
        return self.ready and not self.assigned

    def on_report(self, report: TaskReport) -> None:
        """Record the result of a task, once, and acknowledge it."""
        self.listener.task_results.setdefault((report.user, report.task_id), report)
        self.send({"ctl": "task_ack", "task_id": report.task_id, "user": report.user})

    def on_result(self, result: WorkResult) -> None:
        work = self.assigned.get(result.request_id)
        if work is None:
            return
        if work.result is None:
            work.result = result
            work.state = "resulted"
            work.ended.set()
        if self.offer is not None and self.listener.dialect == "strict":
            self.send({"ctl": "ack", "request_id": result.request_id, "what": "result"})
        if result.status == "denied":
            del self.assigned[result.request_id]
            self.dispatch()


@dataclass
class StubListener:
    """A listener that gives submitted work to the attached agent."""

    url: str
    workspace: str = "stub"
    dialect: Dialect = "strict"
    key: bytes | None = None
    """The key that agents must prove to have; None: no proof is asked for."""
    heartbeat: float = 15.0
    first_line: float = 10.0
    """Seconds to the first line of a connection."""
    max_line: int = 1 << 20
    session_type: type[StubSession] = StubSession
    ledger: dict[str, StubWork] = field(default_factory=dict[str, StubWork])
    task_results: dict[tuple[str, str], TaskReport] = field(default_factory=dict[tuple[str, str], TaskReport])
    """Results of tasks that were not given here, by user and task."""
    current: StubSession | None = None
    """The session that gets work."""
    epoch: int = 0
    sessions: set[StubSession] = field(default_factory=set[StubSession])
    """Open connections."""
    _tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])
    _stack: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack)

    async def __aenter__(self) -> StubListener:
        """Listen from now on; `url` has the port then. Raises OSError."""
        endpoint = parse_endpoint(self.url, listening=True)
        self.url = str(await self._stack.enter_async_context(accept_peers(endpoint, self._on_peer, self.new_lines)))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()  # first, because an agent comes back while the others are let go
        await asyncio.sleep(0)  # a session that has not begun would not end its connection
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def new_lines(self) -> Lines:
        """Return a reader that splits the stream of a connection into lines."""
        return Lines(self.max_line)

    def submit(self, content: str, *, request_id: str | None = None, **more: Any) -> str:
        """Submit work and return its id."""
        request = WorkRequest.model_validate(request_frame("strict", content, request_id, **more))
        self.ledger[request.request_id] = StubWork(request)
        if self.current is not None:
            self.current.dispatch()
        return request.request_id

    async def wait_for_result(self, request_id: str, seconds: float = 10.0) -> StubWork:
        """Return the work once it has its result. Raises TimeoutError."""
        work = self.ledger[request_id]
        async with asyncio.timeout(seconds):
            await work.ended.wait()
        return work

    def _on_peer(self, link: PeerConnection) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(self.session_type(self, link)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, session: StubSession) -> None:
        self.sessions.add(session)
        try:
            await session.run()
        finally:
            self.sessions.discard(session)
            if self.current is session:
                self.current = None
            session.end()
            await session.link.close()
