"""One connection of the stub agent: what it says, and what it makes of what it is told."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from agent_common.protocol import is_object
from agent_common.protocol.work import (
    MAX_BAD_LINES,
    Ack,
    Attach,
    Cancel,
    ConstraintAck,
    Constraints,
    ConstraintsPayload,
    Drain,
    FrameFault,
    FrameTooLarge,
    LifecycleSignal,
    Offer,
    Ping,
    Pong,
    Resume,
    ResumeOk,
    SignalName,
    UnknownControl,
    Welcome,
    WorkRequest,
    compute_mac,
    decode,
    encode,
    new_sid,
    read_frame,
    read_loose_request,
)

from . import agent_work as work

if TYPE_CHECKING:
    from .agent import StubAgent, StubEntry

_FIXED_SID = new_sid()
_PIECE = 1 << 18


class HangUp(Exception):
    """The connection is to end; the text says why."""


class AgentConversation:
    """A connection, from the first word to the end."""

    def __init__(self, agent: StubAgent, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.agent, self._reader, self._writer = agent, reader, writer
        self.agent_id = agent.agent_id
        self.sid = _FIXED_SID if self.has_fault("one_sid") else new_sid()
        self.welcome: Welcome | None = None
        self.open_for_results = False
        self.draining = False
        self._attached = False
        self._last_received = asyncio.get_running_loop().time()
        self._bad_line_times: list[float] = []
        self._pushed_payload: ConstraintsPayload | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def has_fault(self, name: str) -> bool:
        return name in self.agent.faults

    # ---------------------------------------------------------------- saying

    def send(self, frame: BaseModel | dict[str, Any]) -> None:
        if not self._writer.is_closing():
            self._writer.write(encode(frame))

    def signal(self, name: SignalName, request_id: str | None = None, detail: str | None = None) -> None:
        agent_id = self.agent.agent_id if self.has_fault("own_identity") else self.agent_id
        frame = LifecycleSignal(
            signal=name, agent_id=agent_id, observed_at=work.now(), request_id=request_id, detail=detail
        )
        value: dict[str, Any] = frame.model_dump(exclude_none=True)
        if self.agent.dialect == "loose" and not self.has_fault("strict_signals"):
            value = {key: value[key] for key in ("signal", "request_id") if key in value}
        if self.has_fault("extra_field"):
            value["mood"] = "good"
        self.send(value)

    def deliver(self, entry: StubEntry) -> None:
        """Sends the result, and says that the slot is free."""
        result = entry.result
        if result is None or entry.result_unwanted:
            return
        if self.has_fault("no_audit_ref"):
            result = result.model_copy(update={"audit_ref": "none"})
        value: dict[str, Any] = result.model_dump(exclude_none=True)
        if self.agent.dialect == "loose" and not self.has_fault("strict_results"):
            value = {
                "request_id": result.request_id,
                "ok": result.status == "completed",
                "content": result.content or result.error,
            }
        for _ in range(2 if self.has_fault("two_results") else 1):
            self.send(value)
        self.signal("completed", result.request_id)
        entry.sent = True
        if self.has_fault("lets_results_go"):
            entry.acked = True
        if self.draining and not self.agent.running:
            self._finish_drain()

    def _send_hello(self) -> None:
        agent = self.agent
        strict = agent.dialect == "strict"
        if agent.broken and strict and not self.has_fault("no_word_of_breaks"):
            self.signal("mediation_broken", detail=agent.broken[:200])
        if not self.has_fault("ack_after_ready"):
            self._send_constraint_ack()
        if self.has_fault("early_control"):
            self.send(Ping(n=1))
        if self.has_fault("blank_lines"):
            self._writer.write(b"\n")
        window = 0 if self.has_fault("bad_offer") else agent.window
        offer = Offer(window, agent.max_line, self.sid, agent.epoch)
        self.signal("ready", detail=str(offer) if agent.extensions and strict else None)
        if self.has_fault("ack_after_ready"):
            self._send_constraint_ack()
        if not (agent.extensions and strict):
            self._apply_verdicts({})

    def _send_constraint_ack(self) -> None:
        agent = self.agent
        if agent.hash and agent.dialect == "strict":
            told = agent.hash.removeprefix("sha256:") if self.has_fault("bare_hash") else agent.hash
            self.send(ConstraintAck(version=agent.version, hash=told, agent_id=self.agent_id, observed_at=work.now()))

    # ---------------------------------------------------------------- hearing

    async def run(self) -> str:
        """Talks until the connection ends; returns why it did."""
        if not self.has_fault("silent"):
            self._send_hello()
        lines = work.line_reader(self)
        rest = b""
        try:
            while data := await self._reader.read(_PIECE):
                self._last_received = asyncio.get_running_loop().time()
                before, rest = rest, (rest + data).rpartition(b"\n")[2][-4096:]
                if self.has_fault("drops_crumbs") and len(data) < 8:
                    continue
                if self.has_fault("dies_of_blanks") and work.has_blank(before + data):
                    return "a blank line came"
                for line in lines.feed(data):
                    self._handle_line(line)
                await self._writer.drain()
            if self.has_fault("reads_cut_lines") and rest:
                self._handle_line(rest)
        except (OSError, FrameTooLarge, HangUp) as error:
            return str(error) or type(error).__name__
        finally:
            for task in self._tasks:
                task.cancel()
        return "the host hung up"

    def _handle_line(self, line: bytes | FrameFault) -> None:
        try:
            if isinstance(line, FrameFault):
                raise line
            self._handle_frame(work.parse_leniently(self, line) or decode(line))
        except FrameFault as fault:
            self._on_bad_line(fault)

    def _on_bad_line(self, fault: FrameFault) -> None:
        if self.has_fault("dies_of_long_lines") and fault.code == "line_too_long":
            raise HangUp("a long line came")
        if self.has_fault("dies_of_bad_lines") and fault.code in ("invalid_json", "not_an_object"):
            raise HangUp("a bad line came")
        at = asyncio.get_running_loop().time()
        self._bad_line_times = [one for one in self._bad_line_times if at - one < 60] + [at]
        if len(self._bad_line_times) > MAX_BAD_LINES and not self.has_fault("endures_floods"):
            raise HangUp("too many bad lines came")

    def _handle_frame(self, value: dict[str, Any]) -> None:
        if self.agent.dialect == "loose" and isinstance(value.get("principal"), str):
            work.start_request(self, read_loose_request(value, now=work.now(), constraints_version=self.agent.version))
            return
        frame = read_frame(work.drop_tolerated(self, value))
        if isinstance(frame, WorkRequest):
            if self.welcome is None and not self.open_for_results and not self.has_fault("needs_welcome"):
                self._apply_verdicts({})  # the host does not know the extensions
            work.start_request(self, frame)
        elif isinstance(frame, Constraints):
            self._apply_constraints(frame)
        elif is_object(value) and "ctl" in value:
            self._handle_control(frame)

    def _handle_control(self, frame: object) -> None:
        match frame:
            case Welcome():
                self._handle_welcome(frame)
            case Ping():
                if not self.has_fault("no_pong"):
                    self.send(Pong(n=frame.n))
            case ConstraintsPayload():
                self._pushed_payload = frame
            case Drain():
                self._drain()
            case UnknownControl() if self.has_fault("dies_of_unknown_control"):
                raise HangUp("an unknown control frame came")
            case _:
                self._handle_work_control(frame)

    def _handle_work_control(self, frame: object) -> None:
        match frame:
            case ResumeOk():
                self._apply_verdicts(dict(frame.verdicts))
            case Ack() if not self.has_fault("ignores_acks"):
                if (entry := self.agent.ledger.get(frame.request_id)) is not None:
                    entry.acked = True
            case Cancel() if not self.has_fault("no_cancel"):
                work.cancel(self, frame.request_id)
            case _:
                pass

    # ---------------------------------------------------------------- the extensions

    def _handle_welcome(self, welcome: Welcome) -> None:
        self.welcome = welcome
        self.agent_id, self.agent.epoch = welcome.agent_id, welcome.epoch
        if self.has_fault("late_attach"):
            self._resume()
        if welcome.challenge and self.agent.key is not None and not self.has_fault("no_attach"):
            key = b"another" if self.has_fault("wrong_mac") else self.agent.key
            mac = compute_mac(
                key, challenge=welcome.challenge, sid=self.sid, agent_id=welcome.agent_id, epoch=welcome.epoch
            )
            self.send(Attach(sid=self.sid, mac=mac))
        if not self.has_fault("late_attach"):
            self._resume()
        self._track_task(self._send_heartbeats(welcome.heartbeat_s))

    def _resume(self) -> None:
        if self.has_fault("no_resume"):
            self._apply_verdicts({})
        else:
            self.send(Resume(running=tuple(self.agent.running), unacked=tuple(self.agent.unacked)))

    def _apply_verdicts(self, verdicts: dict[str, str]) -> None:
        self.open_for_results = True
        dropped = {"forget"} - ({"forget"} if self.has_fault("ignores_forget") else set())
        dropped |= {"resend"} if self.has_fault("no_resend") else set()
        for name in [*self.agent.running, *self.agent.unacked]:
            entry, verdict = self.agent.ledger[name], verdicts.get(name)
            if verdict == "cancel" and not self.has_fault("ignores_cancel_verdict"):
                entry.result_unwanted = entry.acked = True
                work.cancel(self, name)
            elif verdict in dropped:
                entry.acked = True
            elif entry.result is not None and (self.welcome is not None or not entry.sent):
                self.deliver(entry)

    async def _send_heartbeats(self, seconds: float) -> None:
        number = 0
        while True:
            await asyncio.sleep(seconds)
            number += 1
            self.send(Ping(n=number))
            if asyncio.get_running_loop().time() - self._last_received > 3 * seconds and not self.has_fault(
                "trusts_silence"
            ):
                self._writer.transport.abort()
                return

    def _apply_constraints(self, frame: Constraints) -> None:
        payload, self._pushed_payload = self._pushed_payload, None
        if self.has_fault("no_push") or payload is None or payload.version != frame.version:
            return
        found = work.checked_hash(self, payload.b64, frame.hash)
        if found is not None:
            self.agent.version, self.agent.hash = frame.version, found
            self._send_constraint_ack()

    def _drain(self) -> None:
        self.draining = True
        if not self.agent.running:
            self._finish_drain()

    def _finish_drain(self) -> None:
        if not self.has_fault("stays_after_drain"):
            self.agent.drained = True
            self._track_task(self._close())

    async def _close(self) -> None:
        self._writer.close()

    def _track_task(self, job: Any) -> None:
        task = asyncio.create_task(job)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
