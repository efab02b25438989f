"""One connection of the stub listener."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from agent_common.protocol.work import (
    MAX_BAD_LINES,
    Ack,
    Attach,
    FrameFault,
    FrameTooLarge,
    LifecycleSignal,
    Lines,
    Offer,
    Ping,
    Pong,
    Resume,
    ResumeOk,
    UnknownControl,
    Verdict,
    Welcome,
    WorkResult,
    decode,
    encode,
    new_challenge,
    read_frame,
    read_loose_result,
    read_loose_signal,
    to_rfc3339,
    verify_mac,
)

from .agent_connection import HangUp

if TYPE_CHECKING:
    from .listener import StubListener, StubWork

_PIECE = 1 << 18
_HASTY_SECONDS = 0.5


class ListenerConversation:
    """A connection, from the first line to the end."""

    def __init__(self, host: StubListener, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.host, self._reader, self._writer = host, reader, writer
        self.has_spoken = False
        self.assigned: dict[str, StubWork] = {}
        """What the agent works on."""
        self._offer: Offer | None = None
        self._challenge: str | None = None
        self._epoch = 0
        self._ready = False
        self._quarantined = False
        self._last_received = asyncio.get_running_loop().time()
        self._bad_line_times: list[float] = []
        self._heartbeat_task: asyncio.Task[None] | None = None

    def has_fault(self, name: str) -> bool:
        return name in self.host.faults

    def send(self, frame: BaseModel | dict[str, Any]) -> None:
        if not self._writer.is_closing():
            self._writer.write(encode(frame))

    def end(self) -> None:
        """Ends both directions at once."""
        if self._heartbeat_task is not None:
            self._heartbeat_task.cancel()
        self._writer.close()

    def requeue(self) -> None:
        """What the agent had is to be given again."""
        for work in self.assigned.values():
            lost = "loses_accepted" if work.state == "accepted" else "loses_unaccepted"
            if work.state in ("dispatched", "accepted") and not self.has_fault(lost):
                work.state = "queued"
        self.assigned.clear()
        if self.host.current is not None:
            self.host.current.dispatch()

    # ---------------------------------------------------------------- hearing

    async def run(self) -> str:
        """Talks until the connection ends; returns why it did."""
        if self.has_fault("speaks_first"):
            self.send(Welcome(workspace="stub", agent_id="stub", epoch=1))
        try:
            await self._read_all()
        except TimeoutError:
            return "no first line"
        except (OSError, HangUp) as error:
            return "reset" if isinstance(error, ConnectionResetError) else str(error)
        except FrameTooLarge as error:
            if self.has_fault("half_closes") and self._writer.can_write_eof():
                self._writer.write_eof()
                while await self._reader.read(_PIECE):
                    pass
            return str(error)
        return "eof"

    async def _read_all(self) -> None:
        lines, rest = Lines(self.host.max_line), b""
        while data := await self._read_piece():
            self._last_received = asyncio.get_running_loop().time() if self.has_spoken else self._last_received
            if self.has_fault("drops_crumbs") and len(data) < 8 and self.assigned:
                continue
            rest = (rest + data).rpartition(b"\n")[2][-4096:]
            for line in self._split_lines(lines, data):
                self._handle_line(line)
            await self._writer.drain()
        if self.has_fault("reads_cut_lines") and rest:
            self._handle_line(rest)

    async def _read_piece(self) -> bytes:
        haste = _HASTY_SECONDS if self.has_fault("hasty") else self.host.first_line
        left = (
            self._last_received - asyncio.get_running_loop().time() + haste
        )  # counts from the beginning until there is a line
        async with asyncio.timeout(None if self.has_spoken else left):
            return await self._reader.read(_PIECE)

    def _split_lines(self, lines: Lines, data: bytes) -> list[bytes | FrameFault]:
        try:
            return list(lines.feed(data))
        except FrameTooLarge:
            if not self.has_fault("endures_endless_lines"):
                raise
            return []

    def _handle_line(self, line: bytes | FrameFault) -> None:
        self.has_spoken = True
        if self.host.hang_up_next:
            self.host.hang_up_next = False
            raise HangUp("probes were too much")
        try:
            if isinstance(line, FrameFault):
                raise line
            value = decode(line)
            self._handle_frame(self._parse(value))
        except FrameFault as fault:
            self._on_bad_line(fault)

    def _parse(self, value: dict[str, Any]) -> object:
        """A frame, loose ones filled in."""
        now = to_rfc3339(time.time_ns() // 1_000_000)
        if "ok" in value:
            return read_loose_result(value, now=now, audit_ref="")
        if "signal" in value and "observed_at" not in value:
            return read_loose_signal(value, now=now, agent_id=self.host.workspace)
        return read_frame(value)

    def _on_bad_line(self, fault: FrameFault) -> None:
        if self.has_fault("dies_of_bad_lines") and fault.code != "line_too_long":
            raise HangUp("a bad line came")
        if self.has_fault("dies_of_long_lines") and fault.code == "line_too_long":
            raise HangUp("a long line came")
        now = asyncio.get_running_loop().time()
        self._bad_line_times = [one for one in self._bad_line_times if now - one < 60] + [now]
        if len(self._bad_line_times) > MAX_BAD_LINES and not self.has_fault("endures_floods"):
            raise HangUp("too many bad lines came")

    def _handle_frame(self, frame: object) -> None:
        match frame:
            case LifecycleSignal():
                self._handle_signal(frame)
            case WorkResult():
                self._handle_result(frame)
            case Attach():
                self._handle_attach(frame)
            case Resume():
                self._handle_resume(frame)
            case Ping():
                if not self.has_fault("no_pong"):
                    self.send(Pong(n=frame.n))
            case UnknownControl() if self.has_fault("dies_of_unknown_control"):
                raise HangUp("an unknown control frame came")
            case _:
                pass

    # ---------------------------------------------------------------- attaching

    def _handle_signal(self, signal: LifecycleSignal) -> None:
        work = self.assigned.get(signal.request_id or "")
        if self.has_fault("eager") and signal.signal != "ready":
            self._start_work()
        if signal.signal == "ready":
            self._handle_ready(Offer.parse(signal.detail))
        elif signal.signal == "quarantined" and self.has_fault("heeds_quarantine"):
            self._quarantined = True
        elif signal.signal == "accepting" and work is not None and work.state == "dispatched":
            work.state = "accepted"
        elif signal.signal == "completed" and work is not None:
            del self.assigned[work.request.request_id]
            self.dispatch()

    def _handle_ready(self, offer: Offer | None) -> None:
        host = self.host
        if self.has_fault("newcomers_displace") and host.current is not None and host.current is not self:
            host.current.end()
        self._offer = offer
        if self.has_fault("blank_lines"):
            self._writer.write(b"\n")
        if (offer is None or host.dialect == "loose") and not self.has_fault("always_welcomes"):
            if host.key is None:
                self._start_work()
            return
        self._challenge = new_challenge() if host.key is not None else None
        host.epoch = self._epoch = 1 if self.has_fault("one_epoch") else host.epoch + 1
        welcome = Welcome(
            workspace=host.workspace,
            agent_id=host.workspace,
            epoch=self._epoch,
            heartbeat_s=host.heartbeat,
            max_line=host.max_line,
            challenge=self._challenge,
        )
        value = {"ctl": "welcome", **welcome.model_dump(exclude_none=True)}
        if self.has_fault("bad_welcome"):
            del value["workspace"]
        self.send(value)
        self._heartbeat_task = asyncio.create_task(self._heartbeat())
        if host.dialect == "loose":  # its agent knows no answer to a welcome
            self._start_work()
        if self.has_fault("asks_in_vain"):
            self._ready = True
            self.dispatch()

    def _handle_attach(self, attach: Attach) -> None:
        if self._challenge is None or self.host.key is None or self._offer is None:
            return
        good = attach.sid == self._offer.sid and verify_mac(
            attach.mac,
            self.host.key,
            challenge=self._challenge,
            sid=attach.sid,
            agent_id=self.host.workspace,
            epoch=self._epoch,
        )
        old = self.has_fault("takes_old_macs") and attach.mac in self.host.macs
        if not (good or old or self.has_fault("takes_any_mac")):
            raise HangUp("a wrong MAC came")
        self.host.macs.add(attach.mac)
        self._challenge = None

    def _handle_resume(self, resume: Resume) -> None:
        if self._challenge is not None:
            raise HangUp("the challenge was not answered")
        if self.host.current is not None and self.host.current is not self:
            self.host.current.requeue()
            if not self.has_fault("two_sessions"):
                self.host.current.end()
        verdicts: dict[str, Verdict] = {name: self._verdict(name, done=False) for name in resume.running}
        verdicts |= {name: self._verdict(name, done=True) for name in resume.unacked}
        for name, verdict in verdicts.items():
            if verdict in ("continue", "resend") and (work := self.host.ledger.get(name)) is not None:
                work.state, self.assigned[name] = "accepted", work
        if not self.has_fault("no_resume_ok"):
            self.send(ResumeOk(verdicts=verdicts))
        self._start_work()

    def _verdict(self, name: str, *, done: bool) -> Verdict:
        work = self.host.ledger.get(name)
        if work is None or work.state == "resulted":
            unknown: Verdict = "forget" if done else "cancel"
            return "resend" if done and self.has_fault("wants_all_results") else unknown
        if done:
            return "forget" if self.has_fault("does_not_want_results") else "resend"
        return "cancel" if self.has_fault("cancels_after_breaks") else "continue"

    async def _heartbeat(self) -> None:
        number = 0
        while True:
            await asyncio.sleep(self.host.heartbeat)
            if asyncio.get_running_loop().time() - self._last_received > 3 * self.host.heartbeat and not self.has_fault(
                "trusts_silence"
            ):
                self._writer.transport.abort()
                return
            number += 1
            self.send(Ping(n=number))

    # ---------------------------------------------------------------- work

    def _start_work(self) -> None:
        self._ready = True
        self.host.current = self
        self.dispatch()

    def dispatch(self) -> None:
        """Gives the agent work, if it has room for it."""
        for work in self.host.ledger.values():
            full = bool(self.assigned) and not self.has_fault("floods")
            if full or not self._ready or self._quarantined or self._writer.is_closing():
                return
            if work.state == "queued":
                work.state, self.assigned[work.request.request_id] = "dispatched", work
                work.times_sent += 1
                self.send(self._request_frame(work))

    def _request_frame(self, work: StubWork) -> dict[str, Any]:
        value = work.request.model_dump(exclude_none=True)
        if self.host.dialect == "loose" and not self.has_fault("strict_requests"):
            value = {name: value[name] for name in ("request_id", "content")} | {"principal": "operator"}
        return {**value, "colour": "blue"} if self.has_fault("extra_field") else value

    def _handle_result(self, result: WorkResult) -> None:
        work = self.assigned.get(result.request_id)
        if work is None:
            if self.has_fault("dies_of_foreign_results") and result.request_id not in self.host.ledger:
                raise HangUp("a result came for a request that was never given")
            return
        if work.result is None or self.has_fault("last_wins"):
            work.result, work.state = result, "resulted"
            work.ended.set()
        if not self.has_fault("no_ack") and self._offer is not None and self.host.dialect == "strict":
            self.send(Ack(request_id=result.request_id))
        if result.status == "denied":
            del self.assigned[result.request_id]
            if self.has_fault("retries_denied"):
                work.state, work.result = "queued", None
            self.dispatch()
