"""The tester as an agent: it dials the listener, and behaves as an agent should, or must not."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from agent_common.errors import StartError
from agent_common.net import Endpoint, open_endpoint
from agent_common.protocol.work import Offer, compute_mac, encode, new_sid
from agent_testing.channel import Frame, PeerConnection, brief, is_ctl, is_request, result_frame, signal_frame

from .drive import NoWorkDriver, WorkDriver
from .host import Options
from .rules import NotApplicable, RuleBroken

_RETRY = 0.2
SLOW_SECONDS = 1.0
"""Duration of a first line that is sent byte by byte."""


@dataclass(slots=True)
class TesterAttachment:
    """A connection on which the tester has sent `ready`."""

    link: PeerConnection
    sid: str
    welcome: Frame | None = None
    resume_ok: Frame | None = None
    mac: str | None = None

    @property
    def epoch(self) -> int:
        return int((self.welcome or {}).get("epoch", 0))


@dataclass(slots=True)
class TesterGuest:
    """The tester's end for the rules for listeners."""

    endpoint: Endpoint
    options: Options
    driver: WorkDriver = field(default_factory=NoWorkDriver)
    links: list[PeerConnection] = field(default_factory=list[PeerConnection])
    epochs: list[int] = field(default_factory=list[int])
    macs: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Sid and MAC of earlier attachments."""
    handled: set[tuple[str, Any]] = field(default_factory=set[tuple[str, Any]])
    """Pairs of a connection's name and a request's id that a rule has handled."""
    pending_request: Frame | None = None
    """A request that one rule has received and another one answers."""
    offers_task_results: bool = False
    """Whether new attachments offer to report the ends of tasks."""
    broken: bool = False
    send_pongs: bool = True
    _current: TesterAttachment | None = None

    async def wait_for_listener(self) -> None:
        """Wait until the listener accepts connections. Raises StartError after the options' `wait`."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self.options.wait
        while True:
            try:
                _, writer = await open_endpoint(self.endpoint, self.options.timeout)
            except OSError as error:
                if loop.time() > until:
                    raise StartError(
                        f"nothing listens at {self.endpoint} within {self.options.wait:g} s: {error}; "
                        "start the listener there, or raise --wait"
                    ) from None
                await asyncio.sleep(_RETRY)
            else:
                writer.close()
                return

    async def dial(self) -> PeerConnection:
        """Return a new connection on which nothing was sent. Raises RuleBroken if it is refused."""
        try:
            reader, writer = await open_endpoint(self.endpoint, self.options.timeout)
        except OSError as error:
            raise RuleBroken(f"the listener does not accept connections: {error}") from None
        link = PeerConnection(reader, writer, f"connection {len(self.links) + 1}")
        link.on_frame = lambda frame: self._answer_ping(link, frame)
        self.links.append(link)
        return link

    async def close(self) -> None:
        for link in self.links:
            await link.close()

    async def drop(self, *, reset: bool = False) -> None:
        """End the current attachment, if there is one."""
        if self._current is not None:
            await self._current.link.close(reset=reset)
            self._current = None
            self.broken = True

    # ---------------------------------------------------------------- attaching

    async def ensure_attachment(self, *, bad: int = 0, ctl: bool = False) -> TesterAttachment:
        """Return the current attachment if it can still be used, else a new one. Raises NotApplicable if `ctl` demands
        the extensions and the listener has none, RuleBroken."""
        current = self._current
        if current is None or current.link.closed or current.link.bad_lines_sent + bad > 6:
            current = await self.attach()
        if ctl and current.welcome is None:
            raise NotApplicable("the listener does not accept the offer of the extensions")
        return current

    async def attach(self, *, reset: bool = False, keep_previous: bool = False, **resume: Any) -> TesterAttachment:
        """Make a new attachment the current one; `keep_previous` leaves the other one open. Raises RuleBroken."""
        if not keep_previous:
            await self.drop(reset=reset)
        self._current = await self.send_ready(await self.dial(), resume=resume)
        return self._current

    def use_attachment(self, attachment: TesterAttachment) -> None:
        """Make an attachment the current one."""
        self._current = attachment

    async def send_ready(
        self,
        link: PeerConnection,
        *,
        offer: bool = True,
        key: bytes | None = None,
        resume: Frame | None = None,
        replay: tuple[str, str] | None = None,
        slowly: bool = False,
    ) -> TesterAttachment:
        """Send an agent's first frames, and negotiate the extensions if `offer`. `key` is tried in place of the
        options' key, `replay` is the sid and MAC of an earlier attachment, `slowly` sends the first line byte by
        byte. Raises NotApplicable without a key for the listener's challenge."""
        attachment = TesterAttachment(link, replay[0] if replay else new_sid(), mac=replay[1] if replay else None)
        strict = self.options.dialect == "strict"
        if self.broken and strict and not slowly:
            await link.send(self.signal_frame("mediation_broken", detail="the tester has broken it"))
        extensions = Offer(1, 1 << 20, attachment.sid, task_results=self.offers_task_results)
        offered = str(extensions) if offer and strict else None
        ready = self.signal_frame("ready", **({"detail": offered} if offered else {}))
        if slowly:
            await link.send_byte_by_byte(encode(ready), pause=SLOW_SECONDS / len(encode(ready)))
        else:
            await link.send(ready)
        if offered:
            await self._negotiate(attachment, key or self.options.key, resume or {})
        return attachment

    async def _negotiate(self, attachment: TesterAttachment, key: bytes | None, resume: Frame) -> None:
        link = attachment.link
        wait = min(2.0, self.options.timeout)
        attachment.welcome = welcome = await link.wait_for(lambda frame: is_ctl(frame, "welcome"), wait)
        if welcome is None:
            return
        link.ctl_allowed = True
        if challenge := welcome.get("challenge"):
            if key is None:
                raise NotApplicable("the listener asks for a proof: give the workspace's key with --key-file")
            attachment.mac = attachment.mac or self.compute_mac(attachment, key, str(challenge))
            await link.send({"ctl": "attach", "sid": attachment.sid, "mac": attachment.mac})
            self.macs.append((attachment.sid, attachment.mac))
        await link.send({"ctl": "resume", "running": [], "unacked": [], **resume})
        attachment.resume_ok = await link.wait_for(lambda frame: is_ctl(frame, "resume_ok"), wait)
        if attachment.resume_ok is not None:
            self.epochs.append(attachment.epoch)

    def compute_mac(self, attachment: TesterAttachment, key: bytes, challenge: str) -> str:
        welcome = attachment.welcome or {}
        return compute_mac(
            key,
            challenge=challenge,
            sid=attachment.sid,
            agent_id=str(welcome.get("agent_id")),
            epoch=attachment.epoch,
        )

    def _answer_ping(self, link: PeerConnection, frame: Frame) -> None:
        if self.send_pongs and link.ctl_allowed and is_ctl(frame, "ping"):
            link.post({"ctl": "pong", "n": frame.get("n", 0)})

    # ---------------------------------------------------------------- frames

    def signal_frame(self, name: str, **more: Any) -> Frame:
        """Build a lifecycle signal in the dialect."""
        return signal_frame(self.options.dialect, self.options.agent_id, name, **more)

    def result_frame(self, request: Frame, content: str = "pong", status: str = "completed", **more: Any) -> Frame:
        """Build the result of a request in the dialect."""
        return result_frame(self.options.dialect, request, status, content, **more)

    # ---------------------------------------------------------------- work

    async def next_request(self, link: PeerConnection, *, submit: bool = True) -> Frame:
        """Return the next request on this connection; `submit` makes the listener send one. Raises RuleBroken."""
        wanted = await self.driver.submit(self.options.work) if submit else None
        return await self._expect_request(link, wanted, self.options.timeout)

    async def expect_resend(self, link: PeerConnection, request: Frame) -> Frame:
        """Return the same request when it is sent again. Raises RuleBroken."""
        return await self._expect_request(link, request["request_id"], self.options.timeout * 3)

    async def _expect_request(self, link: PeerConnection, wanted: str | None, seconds: float) -> Frame:
        """Return the request `wanted`, or any for None. Requests left over by other rules are completed."""
        while True:
            request = await link.expect(
                f"the request {wanted or ''}".strip(),
                lambda frame: is_request(frame) and (link.name, frame.get("request_id")) not in self.handled,
                seconds,
            )
            self.handled.add((link.name, request.get("request_id")))
            if wanted in (None, request.get("request_id")):
                return request
            await self.finish(link, request)

    async def submit_work(self) -> None:
        """Submit work without waiting for the request. Raises NotApplicable if there is no driver."""
        if isinstance(self.driver, NoWorkDriver):
            raise NotApplicable("the listener cannot be given work: use --drive")
        await self.driver.submit(self.options.work)

    async def expect_no_request(self, link: PeerConnection) -> None:
        """Raise RuleBroken if the listener gives work on this connection."""
        if found := await link.wait_for(lambda frame: "principal" in frame, self.options.quiet_seconds * 2):
            raise RuleBroken(f"it was given {brief(found)}")

    async def finish(self, link: PeerConnection, request: Frame, content: str = "pong") -> None:
        """Answer a request as a correct agent would."""
        about = {"request_id": request["request_id"]}
        await link.send(
            self.signal_frame("accepting", **about),
            self.result_frame(request, content),
            self.signal_frame("completed", **about),
        )

    async def run_request(self, link: PeerConnection) -> Frame:
        """Receive, answer and return a request. Raises RuleBroken if the result or the connection is lost."""
        request = await self.next_request(link)
        mark = link.mark()
        await self.finish(link, request)
        if await self.driver.read_record(request["request_id"]) is not None:
            await self.expect_status(request["request_id"], "resulted")
        else:
            await link.wait_for(lambda frame: is_ctl(frame, "ack"), self.options.quiet_seconds / 2, mark)
        if link.peer_ended is not None:
            raise RuleBroken(f"the connection ended ({link.peer_ended})")
        return request

    async def expect_result_ack(self, link: PeerConnection, request: Frame) -> None:
        """Wait until the listener has the result, as far as that can be observed. Raises RuleBroken."""
        name = request["request_id"]
        if await self.driver.read_record(name) is not None:
            await self.expect_status(name, "resulted")
        elif link.ctl_allowed:
            seconds = self.options.timeout
            await link.expect(f"an ack of {name}", lambda f: is_ctl(f, "ack") and f.get("request_id") == name, seconds)

    async def expect_status(self, request_id: str, *wanted: str) -> dict[str, Any]:
        """Return the listener's record once it has one of the wanted states. Raises NotApplicable, RuleBroken."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self.options.timeout
        while True:
            record = await self.driver.read_record(request_id)
            if record is None:
                raise NotApplicable("the listener's record cannot be read: use --drive URL")
            if record.get("status") in wanted:
                return record
            if loop.time() > until:
                raise RuleBroken(f"the record says {record.get('status')}, not {' or '.join(wanted)}")
            await asyncio.sleep(0.05)
