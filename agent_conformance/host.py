"""The tester as a host: it listens, waits for the agent to dial, and gives it work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from agent_common.errors import StartError
from agent_common.net import Endpoint
from agent_common.protocol.work import Offer, compute_host_mac, verify_mac
from agent_testing.channel import (
    Dialect,
    ExpectationFailed,
    Frame,
    PeerConnection,
    accept_peers,
    is_ack,
    is_ctl,
    is_result,
    is_signal,
    request_frame,
)

from .rules import NotApplicable, RuleBroken

BAD_LINES_PER_CONNECTION = 6
"""Bad lines on one connection before the tester uses a new one: readers close it at the ninth."""
DEFAULT_PAYLOAD = "Be careful with <markup> & with what is gr\u00fcn \u2713.\n".encode()
_OVERLAP_SECONDS = 0.1
AGENT_GONE = "the agent has not dialed in again"


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a run."""

    dialect: Dialect = "strict"
    key: bytes | None = None
    agent_id: str = "agent-under-test"
    """The identity that the tester gives the agent, or claims to be."""
    timeout: float = 10.0
    """Seconds to wait for a frame that must come."""
    wait: float = 60.0
    """Seconds to wait for the other side's first connection."""
    work: str = "ping"
    """Content of a request that is completed soon."""
    slow: str | None = None
    """Content of a request that takes two seconds or more; None: rules that need one are skipped."""
    tool: str | None = None
    """Content of a request that calls a tool; None: rules that need one are skipped."""
    payload: bytes = DEFAULT_PAYLOAD
    """Constraints that the agent accepts."""

    @property
    def quiet_seconds(self) -> float:
        """Seconds to wait where nothing must come."""
        return min(0.5, self.timeout / 4)


@dataclass(slots=True)
class TesterSession:
    """A connection on which the agent has sent `ready`."""

    link: PeerConnection
    before_ready: list[Frame]
    """Frames that came before `ready`."""
    ready: Frame
    offer: Offer | None
    resume: Frame | None = None
    attach: Frame | None = None
    welcome: Frame | None = None

    @property
    def negotiated(self) -> bool:
        return self.link.ctl_allowed


@dataclass(slots=True)
class TesterHost:
    """The tester's end for the rules for agents."""

    endpoint: Endpoint
    options: Options
    post_task: Callable[[], Awaitable[None]] | None = None
    """Posts a task to the agent's own face; None: rules that need one are skipped."""
    links: list[PeerConnection] = field(default_factory=list[PeerConnection])
    """All connections of the run."""
    sids: list[str] = field(default_factory=list[str])
    constraints_version: int = 0
    """Version of the constraints that the agent has acknowledged."""
    overlaps: int = 0
    send_acks: bool = True
    """Whether results are acknowledged."""
    send_pongs: bool = True
    verdicts: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """Request -> the verdicts for it after a break, one if it runs and one if it has a result. All others are
    cancelled or forgotten."""
    agent_lost: bool = False
    """Whether the agent has not reconnected in time; then later waits are short."""
    agent_resumes: bool = True
    """Whether the agent answered the last welcome with `resume`."""
    drained_link: PeerConnection | None = None
    """The connection on which the agent was sent `drain`."""
    _current: TesterSession | None = None
    _new_connections: asyncio.Queue[PeerConnection] = field(default_factory=asyncio.Queue[PeerConnection])
    _epoch: int = 0
    _tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])

    @asynccontextmanager
    async def listening(self) -> AsyncGenerator[None]:
        """Listen for connections within the block. Raises StartError."""
        accepting = accept_peers(self.endpoint, self._on_peer)
        try:
            self.endpoint = await accepting.__aenter__()
        except OSError as error:
            raise StartError(f"--agent: cannot listen on {error.strerror or error}") from error
        try:
            yield
        finally:
            await accepting.__aexit__(None, None, None)

    def _on_peer(self, link: PeerConnection) -> None:
        self.links.append(link)
        task = asyncio.get_running_loop().create_task(self._check_overlap(link))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._new_connections.put_nowait(link)

    async def _check_overlap(self, link: PeerConnection) -> None:
        """Count an overlap if another connection is still open after a moment, in which its end may be read."""
        await asyncio.sleep(_OVERLAP_SECONDS)
        if not link.closed and any(one is not link and not one.closed for one in self.links):
            self.overlaps += 1

    async def close(self) -> None:
        """Close all connections."""
        for link in self.links:
            await link.close()

    # ---------------------------------------------------------------- sessions

    async def wait_for_agent(self) -> PeerConnection:
        """Wait for the agent's first connection. Raises StartError if there is none in time."""
        try:
            async with asyncio.timeout(self.options.wait):
                link = await self._new_connections.get()
        except TimeoutError:
            raise StartError(
                f"no agent has dialed {self.endpoint} within {self.options.wait:g} s; start the agent so that its "
                f"mediation channel leads there (ours: AGENT_MEDIATION_URL={self.endpoint}), or raise --wait"
            ) from None
        self._new_connections.put_nowait(link)
        return link

    async def next_connection(self, seconds: float) -> PeerConnection | None:
        """Return the next connection that is still open; None if there is none in time."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while True:
            try:
                async with asyncio.timeout_at(until):
                    link = await self._new_connections.get()
            except TimeoutError:
                return None
            await asyncio.sleep(0.01)  # a connection that was closed at once shows it now
            if not link.closed:
                return link

    async def ensure_session(self, *, bad_lines: int = 0, ctl: bool = False) -> TesterSession:
        """Return a session that is ready for work, the current one if it fits. `bad_lines` is how many will be sent
        on it; with `ctl` it must have the extensions. Raises NotApplicable."""
        current = self._current
        if current is None or current.link.closed or current.link.bad_lines_sent + bad_lines > BAD_LINES_PER_CONNECTION:
            current = await self.new_session()
        if ctl and not current.negotiated:
            raise NotApplicable("the agent offers no extensions")
        return current

    async def new_session(self, *, reset: bool = False, ignore_offer: bool = False, **welcome: Any) -> TesterSession:
        """Drop the session and wait for the next; `welcome` adds fields to the welcome. Raises NotApplicable if the
        agent does not reconnect, ExpectationFailed if it is not ready."""
        await self.drop(reset=reset)
        while True:
            link = await self.next_connection(self.options.quiet_seconds if self.agent_lost else self.options.timeout)
            self.agent_lost = link is None
            if link is None:
                raise NotApplicable(AGENT_GONE)
            try:
                self._current = await self._handshake(link, None if ignore_offer else welcome)
            except ExpectationFailed:
                if link.peer_ended is None or link.frames:
                    await link.close()
                    raise
            else:
                return self._current

    async def drop(self, *, reset: bool = False) -> None:
        """End the current session, if there is one."""
        if self._current is not None:
            await self._current.link.close(reset=reset)
            self._current = None

    async def _handshake(self, link: PeerConnection, welcome: dict[str, Any] | None) -> TesterSession:
        seconds = self.options.timeout
        ready = await link.expect("a ready signal", lambda frame: is_signal(frame, "ready"), seconds)
        before = link.frames[: link.frames.index(ready)]
        offer = Offer.parse(ready.get("detail"))
        session = TesterSession(link, before, ready, offer)
        for frame in filter(is_ack, link.frames):
            self._save_version(frame)
        link.on_frame = lambda frame: self._answer_frame(link, frame)
        if offer is not None:
            self.sids.append(offer.sid)
            if self.options.dialect == "strict" and welcome is not None:
                await self._send_welcome(session, welcome)
        return session

    async def _send_welcome(self, session: TesterSession, more: dict[str, Any]) -> None:
        link = session.link
        seconds = self.options.timeout
        self._epoch += 1
        challenge = more.pop("challenge", None)
        welcome = {"ctl": "welcome", "v": 1, "workspace": self.options.agent_id, "agent_id": self.options.agent_id}
        welcome |= {"epoch": self._epoch, "heartbeat_s": 3600, "max_line": 1 << 20, **more}
        if challenge:
            welcome["challenge"] = challenge
        if self.options.key is not None and session.offer is not None and "mac" not in welcome:
            sid = session.offer.sid
            name = self.options.agent_id
            welcome["mac"] = compute_host_mac(
                self.options.key, challenge=challenge, sid=sid, agent_id=name, epoch=int(welcome["epoch"])
            )
        session.welcome = welcome
        link.ctl_allowed = True
        await link.send(welcome)
        if challenge:
            session.attach = await link.wait_for(lambda frame: is_ctl(frame, "attach"), seconds)
            if session.attach is None:
                return
        wait = min(seconds, 2.0) if self.agent_resumes else self.options.quiet_seconds
        session.resume = await link.wait_for(lambda frame: is_ctl(frame, "resume"), wait)
        self.agent_resumes = session.resume is not None
        if session.resume is not None:
            await self._send_verdicts(session, session.resume)

    async def _send_verdicts(self, session: TesterSession, resume: Frame) -> None:
        verdicts: dict[str, str] = {}
        for name, running in (("running", True), ("unacked", False)):
            for request_id in resume.get(name, ()):
                while_running, when_done = self.verdicts.get(str(request_id), ("cancel", "forget"))
                verdicts[str(request_id)] = while_running if running else when_done
        await session.link.send({"ctl": "resume_ok", "verdicts": verdicts})

    def _save_version(self, ack: Frame) -> None:
        """Save the constraints' version that the agent acknowledges."""
        if isinstance(version := ack.get("version"), int):
            self.constraints_version = version

    def _answer_frame(self, link: PeerConnection, frame: Frame) -> None:
        if is_ack(frame):
            self._save_version(frame)
        if self.send_acks and link.ctl_allowed and is_result(frame):
            link.post({"ctl": "ack", "request_id": frame["request_id"], "what": "result"})
        elif self.send_pongs and link.ctl_allowed and is_ctl(frame, "ping"):
            link.post({"ctl": "pong", "n": frame.get("n", 0)})

    @contextmanager
    def with_verdicts(self, request: Frame, running: str, done: str) -> Generator[None]:
        """Within the block, answer `resume` with these verdicts for a request that is running or done."""
        self.verdicts[request["request_id"]] = running, done
        try:
            yield
        finally:
            del self.verdicts[request["request_id"]]

    # ---------------------------------------------------------------- work

    def new_request(self, content: str | None = None, **more: Any) -> Frame:
        """Build a request that the agent should accept, in the dialect."""
        if self.options.dialect == "strict":
            more = {"constraints_version": self.constraints_version, **more}
        return request_frame(self.options.dialect, content or self.options.work, **more)

    async def expect_result(
        self, link: PeerConnection, request: Frame, since: int, seconds: float | None = None
    ) -> Frame:
        """Wait for a request's result. Raises ExpectationFailed."""
        name = request["request_id"]
        wait = self.options.timeout if seconds is None else seconds
        return await link.expect(f"a result of {name}", lambda frame: is_result(frame, name), wait, since)

    async def expect_signal(self, link: PeerConnection, name: str, request: Frame, since: int) -> Frame:
        """Wait for a signal about a request. Raises ExpectationFailed."""
        about = request["request_id"]
        return await link.expect(
            f"{name} of {about}", lambda frame: is_signal(frame, name, about), self.options.timeout, since
        )

    async def run_request(self, link: PeerConnection, request: Frame) -> Frame:
        """Send a request and return its result. Raises RuleBroken unless it is `completed`, ExpectationFailed."""
        mark = link.mark()
        await link.send(request)
        result = await self.expect_result(link, request, mark, self.options.timeout * 3)
        if result.get("status", "completed" if result.get("ok") else "failed") != "completed":
            raise RuleBroken(f"a request that should be completed is {result.get('status')}: {result.get('error')}")
        await link.wait_for(
            lambda frame: is_signal(frame, "completed", request["request_id"]), self.options.quiet_seconds, mark
        )
        return result

    async def start_slow_request(self, link: PeerConnection) -> tuple[Frame, int]:
        """Return a slow request that the agent has accepted, and the mark before it. Raises NotApplicable."""
        if self.options.slow is None:
            raise NotApplicable("needs a request that takes two seconds: give its content with --slow")
        request = self.new_request(self.options.slow)
        mark = link.mark()
        await link.send(request)
        try:
            await self.expect_signal(link, "accepting", request, mark)
        except ExpectationFailed:
            raise NotApplicable("the agent does not say when it begins: see A10") from None
        return request, mark

    def frames_about(self, link: PeerConnection, request: Frame, since: int = 0) -> list[Frame]:
        """Return the frames about a request, without progress."""
        return [
            frame
            for frame in link.frames[since:]
            if frame.get("request_id") == request["request_id"] and not is_ctl(frame, "progress")
        ]

    def has_valid_proof(self, session: TesterSession, challenge: str) -> bool:
        """Return whether the agent has answered the challenge with the right MAC."""
        attach = session.attach
        offer = session.offer
        welcome = session.welcome
        if attach is None or offer is None or welcome is None or self.options.key is None:
            return False
        return attach.get("sid") == offer.sid and verify_mac(
            str(attach.get("mac")),
            self.options.key,
            challenge=challenge,
            sid=offer.sid,
            agent_id=welcome["agent_id"],
            epoch=welcome["epoch"],
        )
