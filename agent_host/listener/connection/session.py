"""One attachment of an agent: read its frames and act on them (docs/protocols/mediation.md#24-order)."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any, Literal, cast

import structlog
from pydantic import BaseModel

from agent_common.json_reader import INLINE_BYTES, run_by_size
from agent_common.protocol.work import ConstraintAck, Control, Drain, FrameFault, Nack, Offer, Ping, WorkFrame, encode

from ..channels.channel import WorkspaceChannel
from ..channels.rate_limit import cost_of
from ..connection import handlers
from ..dispatch import constraints
from ..ledger.work import OpenWork
from ..parts import Parts
from ..timers import Timer
from .parsing import BadLines, kind_of, parse_line, refs_of
from .socket import AgentConnection

log = structlog.get_logger(__name__)
_SHORTEST_PAUSE_SECONDS = 0.02
State = Literal["resuming", "constraining", "ready", "draining", "gone"]


class AgentSession:
    """From the proof of who it is to the end of the connection."""

    __slots__ = (
        "_frame_task",
        "_heartbeat_timer",
        "_missed",
        "_parts",
        "_pause_timer",
        "_pinged_at",
        "_pings",
        "_timer",
        "ack_owed_since",
        "ack_timers",
        "acked",
        "attached_at",
        "bad_lines",
        "broken_before",
        "channel",
        "confirmed",
        "connection",
        "epoch",
        "negotiated",
        "offer",
        "peer_max_line",
        "slots",
        "state",
        "window",
    )

    def __init__(
        self, parts: Parts, channel: WorkspaceChannel, connection: AgentConnection, epoch: int, offer: Offer | None
    ) -> None:
        self._parts, self.channel, self.connection, self.epoch, self.offer = parts, channel, connection, epoch, offer
        self.negotiated = offer is not None
        self.window = min(offer.window, parts.limits.window) if offer else 1
        self.peer_max_line = offer.max_line if offer else parts.limits.max_line
        self.state: State = "resuming"
        self.slots: dict[str, OpenWork] = {}
        """What the agent has been given and has not called completed."""
        self.acked: ConstraintAck | None = None
        self.ack_owed_since: float | None = None
        """Since when it owes the acknowledgement of constraints."""
        self.ack_timers: list[Timer] = []
        self.bad_lines = BadLines(parts.clock)
        self.confirmed = False
        """It has answered our greeting: it knows its epoch."""
        self.broken_before: str | None = None
        self.attached_at = parts.clock.monotonic()
        self._timer: Timer | None = None
        self._heartbeat_timer: Timer | None = None
        self._pause_timer: Timer | None = None
        """Until it may be listened to again."""
        self._frame_task: asyncio.Task[None] | None = None
        """Something is asked of the database before the next frame is heard."""
        self._pings = self._missed = 0
        self._pinged_at = self.attached_at

    # ---------------------------------------------------------------- life

    def start(self, ack: ConstraintAck | None) -> None:
        """Takes over the connection."""
        self.acked = ack
        self.connection.handler = self
        self.connection.set_max_line(self._parts.limits.max_line)
        self._event("attached", str(self.offer) if self.offer else self.channel.dialect)
        self._parts.metrics.count("attachments")
        if self.negotiated:
            self._schedule_heartbeat()
            self._timer = self._parts.timers.call_later(
                self._parts.limits.handshake_timeout, lambda: self.end("no_resume")
            )
        else:
            self.on_resumed()

    def on_resumed(self) -> None:
        """Both ends agree about what was there before."""
        self.confirmed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._parts.dispatcher.retry_lost(self.channel)
        constraints.ensure_acknowledged(self._parts, self)

    def mark_ready(self) -> None:
        """May work, unless it is on its way out."""
        if self.state in ("resuming", "constraining"):
            self.state = "ready"
            self._parts.dispatcher.send_queued(self.channel)

    def drain(self, seconds: float) -> None:
        """No new work; the guest closes when it has ended what it has."""
        if self.state in ("draining", "gone"):
            return
        self.state = "draining"
        if self.negotiated:
            self.send(Drain(deadline_s=seconds))
        self._timer = self._parts.timers.call_later(
            seconds + (self._parts.limits.cancel_grace if self.negotiated else 0), lambda: self.end("drained")
        )
        self._end_when_idle()

    def _end_when_idle(self) -> None:
        if self.state == "draining" and not self.negotiated and not self.slots:
            self.end("drained")

    def end(self, reason: str, *, abruptly: bool = False) -> None:
        """Ends the attachment; what it had may be retried. Again: nothing."""
        if self.state == "gone":
            return
        drained, self.state = self.state == "draining", "gone"
        constraints.pause_ack_timers(self._parts, self)
        for timer in (self._timer, self._heartbeat_timer, self._pause_timer):
            if timer is not None:
                timer.cancel()
        if self._frame_task is not None:
            self._frame_task.cancel()
        if self.channel.session is self:
            self.channel.session = None
            self.channel.last_break = reason
        self._event("detached", reason)
        if not drained:
            self._parts.metrics.count("breaks", reason if reason.isidentifier() else "connection")
        self._parts.detached.set()
        slots, self.slots = self.slots, {}
        self._parts.dispatcher.on_disconnect(self.channel, slots)
        (self.connection.abort if abruptly else self.connection.close)(reason)

    def on_lost(self, reason: str) -> None:
        self.end(reason)

    # ---------------------------------------------------------------- heartbeat

    def _schedule_heartbeat(self) -> None:
        self._heartbeat_timer = self._parts.timers.call_later(self._parts.limits.heartbeat, self._on_heartbeat)

    def _on_heartbeat(self) -> None:
        """Counts pings without a sign of life, and not seconds: a host that stood still itself hears nothing either."""
        silent = (
            self.connection.last_received_at < self._pinged_at
            and not self.channel.paused
            and not self.connection.holding
        )
        self._missed = self._missed + 1 if silent else 0
        if self._missed >= self._parts.limits.missed_heartbeats - 1:
            self.end("heartbeat_lost", abruptly=True)
            return
        self._pinged_at = self._parts.clock.monotonic()
        self._pings += 1
        if not self.channel.paused:
            self.send(Ping(n=self._pings), droppable=True)
        self._schedule_heartbeat()

    # ---------------------------------------------------------------- out

    def send(self, frame: Control | BaseModel, *, request_id: str | None = None, droppable: bool = False) -> None:
        """A frame in its turn. Control frames only after both ends have agreed on them."""
        if isinstance(frame, Control) and not self.negotiated:
            return
        self.send_line(encode(frame), kind_of(frame), request_id=request_id, droppable=droppable)

    def send_line(
        self,
        line: bytes,
        kind: str,
        *,
        request_id: str | None = None,
        audit_ref: str | None = None,
        droppable: bool = False,
    ) -> None:
        if kind not in ("ping", "pong"):
            self._parts.audit_log.write(
                self._parts.audit_log.make_row(
                    "out",
                    kind,
                    line[:-1],
                    workspace=self.channel.workspace,
                    epoch=self.epoch,
                    connection=self.connection.number,
                    request_id=request_id,
                    audit_ref=audit_ref,
                )
            )
        self.connection.send(line, droppable=droppable)

    def free_slot(self, request_id: str) -> None:
        """The slot of a request is free again."""
        work = self.slots.pop(request_id, None)
        if work is None:
            return
        if not work.active:
            work.disarm()
        self._end_when_idle()
        constraints.start_ack_timers_if_idle(self._parts, self)
        self._parts.dispatcher.send_queued(self.channel)

    # ---------------------------------------------------------------- in

    def on_line(self, line: bytes | FrameFault) -> None:
        if self.state == "gone":
            return
        if isinstance(line, bytes) and len(line) > INLINE_BYTES:
            self.run_before_next_frame(self._parse_long(line))
        else:
            self._parse(line)
        channel = self.channel
        if channel.rate_limiter.spend(cost_of(line)) or self._parts.ledger_writer.is_behind(channel.workspace):
            self._pause_reading()

    def _parse(self, line: bytes | FrameFault) -> None:
        try:
            frame = parse_line(self._parts, self.channel, line)
        except FrameFault as fault:
            self._on_bad_line(line, fault)
        else:
            self._handle_frame(line, frame)

    async def _parse_long(self, line: bytes) -> None:
        """Read a long line in a thread: all other agents would wait for it. Its connection does."""
        try:
            frame = await run_by_size(len(line), partial(parse_line, self._parts, self.channel, line))
        except FrameFault as fault:
            self._on_bad_line(line, fault)
        else:
            self._handle_frame(line, frame)

    def _handle_frame(self, line: bytes | FrameFault, frame: WorkFrame) -> None:
        kind = kind_of(frame)
        if kind not in ("ping", "pong"):
            request_id, audit_ref = refs_of(frame)
            self._parts.audit_log.write(
                self._parts.audit_log.make_row(
                    "in",
                    kind,
                    cast(bytes, line),
                    workspace=self.channel.workspace,
                    epoch=self.epoch,
                    connection=self.connection.number,
                    request_id=request_id,
                    audit_ref=audit_ref,
                )
            )
        handle = handlers.HANDLERS.get(type(frame))
        if handle is None:
            self._on_bad_line(line, FrameFault("wrong_direction", f"{kind}: only a host sends this"))
        elif isinstance(frame, Control) and not self.negotiated:
            self._on_bad_line(line, FrameFault("not_negotiated", f"{kind}: no control frames were agreed on"))
        else:
            handle(self._parts, self, frame)

    # ---------------------------------------------------------------- pace

    def _pause_reading(self) -> None:
        """Do not listen to it until its allowance is no longer overdrawn and its trail is being written in time."""
        if self.state == "gone":
            return
        wait = self.channel.rate_limiter.spend(0)
        if wait and not self.connection.holding:
            self.alarm("too_fast", "it says more than it may, and is listened to less often")
        self.connection.hold()
        wait = max(_SHORTEST_PAUSE_SECONDS, wait)
        if self._pause_timer is None:
            self._pause_timer = self._parts.timers.call_later(wait, self.resume_reading)
        else:
            self._pause_timer.reschedule(wait, self.resume_reading)

    def run_before_next_frame(self, job: Coroutine[Any, Any, None]) -> None:
        """Do something that takes a moment. The next frame is not heard before, so a connection has one at a time."""
        self.connection.hold()
        self._frame_task = asyncio.create_task(job, name=f"frame-{self.channel.workspace}")
        self._frame_task.add_done_callback(self._on_job_done)

    def _on_job_done(self, looking: asyncio.Task[None]) -> None:
        if not looking.cancelled() and (error := looking.exception()) is not None:
            log.error("frame_failed", workspace=self.channel.workspace, exc_info=error)
        if self._frame_task is looking:  # else it began something else
            self._frame_task = None
            self.resume_reading()

    def resume_reading(self) -> None:
        """Listen again, unless there is still a reason not to."""
        if self.state == "gone" or self._frame_task is not None:
            return
        if self.channel.rate_limiter.spend(0) or self._parts.ledger_writer.is_behind(self.channel.workspace):
            self._pause_reading()
        else:
            self.connection.release()

    def _on_bad_line(self, line: bytes | FrameFault, fault: FrameFault) -> None:
        """A line that is no frame: said, counted, and endured a few times."""
        self._parts.metrics.count("bad_lines", fault.code)
        self._event(f"bad_line.{fault.code}", str(fault), fault.request_id)
        if self.bad_lines.add_and_check():
            self.end("too_many_bad_lines")
            return
        self.send(Nack(code=fault.code, request_id=fault.request_id, detail=str(fault)[:4000]))

    def alarm(self, code: str, detail: str, request_id: str | None = None) -> None:
        self._parts.audit_log.alarm(
            code,
            detail,
            workspace=self.channel.workspace,
            epoch=self.epoch,
            connection=self.connection.number,
            request_id=request_id,
        )

    def _event(self, kind: str, detail: str | None = None, request_id: str | None = None) -> None:
        self._parts.audit_log.event(
            kind,
            detail,
            workspace=self.channel.workspace,
            epoch=self.epoch,
            connection=self.connection.number,
            request_id=request_id,
        )
