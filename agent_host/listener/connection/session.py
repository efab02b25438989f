"""One attachment of an agent, from the proof of its identity to the end of its connection
(docs/protocols/mediation.md#24-order). `dispatch` decides what follows for work."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from pydantic import BaseModel

from agent_common.protocol.work import ConstraintAck, Control, Drain, Offer, encode

from ..channels.channel import SessionState, WorkspaceChannel
from ..ledger.work import OpenWork
from ..timers import Timer
from .agent_api import AgentApi
from .frame_reader import FrameReader
from .heartbeat import Heartbeat
from .parsing import kind_of
from .services import SessionServices
from .socket import AgentConnection


class AgentSession:
    """An attached agent: the state of its attachment, its slots of work, and the sending of frames."""

    __slots__ = (
        "_heartbeat",
        "_services",
        "_timer",
        "acked",
        "api",
        "attached_at",
        "broken_before",
        "channel",
        "confirmed",
        "connection",
        "epoch",
        "negotiated",
        "offer",
        "peer_max_line",
        "reader",
        "slots",
        "state",
        "window",
    )

    def __init__(
        self,
        services: SessionServices,
        *,
        channel: WorkspaceChannel,
        connection: AgentConnection,
        epoch: int,
        offer: Offer | None,
        broken_before: str | None,
    ) -> None:
        """`offer`: the extensions that the agent offers, or None. `broken_before`: why its last connection broke, in
        its words, or None if it has not said."""
        self._services = services
        self.channel = channel
        self.connection = connection
        self.epoch = epoch
        self.offer = offer
        self.broken_before = broken_before
        self.negotiated = offer is not None
        self.window = min(offer.window, services.limits.window) if offer else 1
        self.peer_max_line = offer.max_line if offer else services.limits.max_line
        self.state: SessionState = "resuming"
        self.slots: dict[str, OpenWork] = {}
        self.acked: ConstraintAck | None = None
        self.confirmed = False
        self.attached_at = services.clock.monotonic()
        self._timer: Timer | None = None
        """Ends the session if the agent does not resume in time, or does not close in time after a drain."""
        self._heartbeat: Heartbeat | None = None
        self.reader = FrameReader(services, self, connection)
        self.api = AgentApi(self, offer.sid if offer is not None and offer.api else None)

    # ---------------------------------------------------------------- states

    def start(self, ack: ConstraintAck | None) -> None:
        """Take over the connection. `ack`: the constraints that the agent says it has, or None."""
        self.acked = ack
        self.connection.handler = self.reader
        limits = self._services.limits
        timers = self._services.timers
        self.record_event("attached", str(self.offer) if self.offer else self.channel.dialect)
        self._services.metrics.count("attachments")
        if self.negotiated:
            self._heartbeat = Heartbeat(self, self.connection, timers=timers, clock=self._services.clock, limits=limits)
            self._timer = timers.call_later(limits.handshake_timeout, lambda: self.end("no_resume"))
        else:
            self.mark_resumed()

    def mark_resumed(self) -> None:
        """Record that both ends agree on the work of earlier connections. Work that the agent has lost is retried; it
        gets more as soon as it has the constraints in force."""
        self.confirmed = True
        if self._timer is not None and self.state == "resuming":  # else it is that of a drain
            self._timer.cancel()
            self._timer = None
        self._services.dispatch.retries.retry_lost(self.channel)
        self._services.dispatch.constraints.ensure_acknowledged(self)

    def mark_ready(self) -> bool:
        """Change the state to `ready`. Returns False if it is `ready` already, or if the session is ending."""
        if self.state not in ("resuming", "constraining"):
            return False
        self.state = "ready"
        return True

    def drain(self, seconds: float) -> None:
        """Send no more work. The session ends once the agent has finished its work, at the latest after `seconds`."""
        if self.state in ("draining", "gone"):
            return
        self.state = "draining"
        if self._timer is not None:
            self._timer.cancel()
        if self.negotiated:
            self.send(Drain(deadline_s=seconds))
            seconds += self._services.limits.cancel_grace
        self._timer = self._services.timers.call_later(seconds, lambda: self.end("drained"))
        self._end_when_idle()

    def _end_when_idle(self) -> None:
        """End a drained session that has no work left, if its agent does not know the frame that asks it to close."""
        if self.state == "draining" and not self.negotiated and not self.slots:
            self.end("drained")

    def end(self, reason: str, *, abruptly: bool = False) -> None:
        """End the attachment; its work may be retried. Idempotent. `abruptly`: drop frames that are not written yet."""
        if self.state == "gone":
            return
        drained = self.state == "draining"
        self.state = "gone"
        if self._timer is not None:
            self._timer.cancel()
        if self._heartbeat is not None:
            self._heartbeat.stop()
        self.reader.close()
        self.api.close()
        if self.channel.session is self:
            self.channel.session = None
        self.record_event("detached", reason)
        if not drained:
            self._services.metrics.count("breaks", reason if reason.isidentifier() else "connection")
        slots = self.slots
        self.slots = {}
        self._services.dispatch.ack_timeouts.stop(self.channel)
        self._services.channels.on_detached()
        self._services.dispatch.retries.on_detached(self.channel, slots)
        (self.connection.abort if abruptly else self.connection.close)(reason)

    @property
    def takes_task_results(self) -> bool:
        """Whether both ends have agreed on `task_result`."""
        return self.offer is not None and self.offer.task_results

    # ---------------------------------------------------------------- slots

    def free_slot(self, request_id: str) -> None:
        """Free the slot of a request, if it has one."""
        work = self.slots.pop(request_id, None)
        if work is None:
            return
        if not work.active:
            work.disarm()
        self._end_when_idle()
        self._services.dispatch.ack_timeouts.start_if_idle(self)
        self._services.dispatch.dispatcher.send_queued(self.channel)

    def abandon(self, work: OpenWork, why: str) -> None:
        """Give up an attempt that the agent has not accepted or finished in time, and end the session."""
        self.slots.pop(work.id, None)
        work.overdue = work.begun
        self._services.dispatch.retries.retry(work, why)
        self.end(why)

    def run_before_next_frame(self, job: Coroutine[Any, Any, None]) -> None:
        """Run the job, and read no frame of the agent until it is done."""
        self.reader.run_before_next_frame(job)

    # ---------------------------------------------------------------- time

    @property
    def last_received_at(self) -> float:
        """Monotonic time of the last byte received, in seconds."""
        return self.connection.last_received_at

    def freeze(self) -> None:
        """Stop the deadlines of the connection and of the work in the slots while the agent's machine is paused."""
        self.connection.freeze()
        for work in self.slots.values():
            if work.timer is not None:
                work.timer.freeze()

    def thaw(self) -> None:
        """Run the deadlines again, with the time that was left."""
        self.connection.last_received_at = self._services.clock.monotonic()  # a paused agent could not send
        self.connection.thaw()
        for work in self.slots.values():
            if work.timer is not None:
                work.timer.thaw()

    # ---------------------------------------------------------------- out

    def send(self, frame: Control | BaseModel, *, request_id: str | None = None, droppable: bool = False) -> None:
        """Send a frame, in order. Control frames are not sent unless both ends have agreed on them."""
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
        """Send an encoded frame, and add its row to the audit trail."""
        if kind not in ("ping", "pong"):
            audit_log = self._services.audit_log
            audit_log.write(
                audit_log.make_row(
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

    def alarm(self, code: str, detail: str, request_id: str | None = None) -> None:
        self._services.audit_log.alarm(
            code,
            detail,
            workspace=self.channel.workspace,
            epoch=self.epoch,
            connection=self.connection.number,
            request_id=request_id,
        )

    def record_event(self, kind: str, detail: str | None = None, request_id: str | None = None) -> None:
        """Add a row to the audit trail."""
        self._services.audit_log.event(
            kind,
            detail,
            workspace=self.channel.workspace,
            epoch=self.epoch,
            connection=self.connection.number,
            request_id=request_id,
        )
