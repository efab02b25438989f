"""Greet a new connection until the host knows which agent it is (docs/protocols/mediation.md#24-order).

The host is silent until the guest's first line. A connection that closes without a byte is a readiness probe: it is
counted, and disturbs nobody.

What a stranger does is counted and not written: its frames get their rows once it is attached, and a workspace's epoch
is raised by an agent that has proved who it is.
"""

from __future__ import annotations

from collections.abc import Callable

from agent_common.protocol.work import (
    Attach,
    ConstraintAck,
    Control,
    FrameFault,
    LifecycleSignal,
    Nack,
    Offer,
    Welcome,
    encode,
    new_challenge,
    verify_mac,
)

from ..channels.channel import WorkspaceChannel
from ..channels.rate_limit import ATTACH_UNITS
from ..ledger.sql import Values
from ..metrics import Direction
from ..parts import Parts
from ..timers import Timer
from .parsing import kind_of, parse_line
from .session import AgentSession
from .socket import AgentConnection

_MOST_EARLY = 64
"""Lines before it is attached."""
_MOST_BYTES = 256 << 10
"""Of those lines."""


class Handshake:
    """A connection that has proved nothing yet."""

    __slots__ = (
        "_ack",
        "_audit_rows",
        "_broken",
        "_challenge",
        "_channel",
        "_early_lines",
        "_epoch",
        "_finished",
        "_greeted",
        "_offer",
        "_on_finished",
        "_parts",
        "_timer",
        "connection",
    )

    def __init__(
        self, parts: Parts, channel: WorkspaceChannel | None, on_finished: Callable[[Handshake], None]
    ) -> None:
        self._parts = parts
        self._channel = channel
        """Whose address this is, if it is one workspace's own."""
        self._on_finished = on_finished
        """Told once it is no longer unproven, whatever it has become."""
        self._ack: ConstraintAck | None = None
        self._broken: str | None = None
        self._early_lines: list[bytes] = []
        self._offer: Offer | None = None
        self._challenge: str | None = None
        self._audit_rows: list[Values] = []
        """Of the trail, written once it is attached."""
        self._epoch = 0
        self._greeted = self._finished = False
        self._timer: Timer = parts.timers.call_later(
            parts.limits.first_line_timeout, lambda: self.refuse("no_first_line")
        )
        self.connection: AgentConnection

    # ---------------------------------------------------------------- in

    def on_line(self, line: bytes | FrameFault) -> None:
        if self._finished:
            return
        try:
            frame = parse_line(self._parts, self._channel, line)
        except FrameFault as fault:
            self._parts.metrics.count("bad_lines", fault.code)
            self.refuse("bad_first_line", str(fault))
            return
        assert isinstance(line, bytes)  # noqa: S101  a fault was raised
        if len(self._audit_rows) >= _MOST_EARLY or self.connection.received_bytes > _MOST_BYTES:
            self.refuse("too_much", "it says too much before it has proved who it is")
            return
        self._add_audit_row("in", kind_of(frame), line)
        match frame:
            case LifecycleSignal(signal="ready") if not self._greeted:
                self._on_ready(frame)
            case LifecycleSignal() if not self._greeted:
                self._broken = frame.detail or frame.error or frame.signal
            case ConstraintAck() if not self._greeted:
                self._ack = frame
            case Attach() if self._challenge is not None:
                self._on_attach(frame)
            case _ if self._greeted:
                self._early_lines.append(line)  # it did not wait for our greeting; heard when it has proved who it is
            case _:
                self.refuse("out_of_order", f"{kind_of(frame)} before it has said who it is")

    def _on_ready(self, ready: LifecycleSignal) -> None:
        self._greeted = True
        channel = self._channel or self._parts.channels.find(ready.agent_id)
        if channel is None or (self._channel is None and channel.auth == "none"):
            self.refuse("unknown_agent", f"no workspace {ready.agent_id[:100]!r} is known at this address")
            return
        self._channel = channel
        if channel.fence is not None:
            self.refuse(f"attach_while_{channel.fence}", channel.fence_reason)
            return
        self._offer = None if channel.loose else Offer.parse(ready.detail)
        if channel.auth == "hmac" and self._offer is None:
            self.refuse("unauthenticated", "it offers no extensions, so that it can prove nothing")
            return
        self._epoch = max(channel.epoch, *channel.offered_epochs, 0) + 1
        channel.offered_epochs.add(self._epoch)
        if channel.auth == "hmac":
            self._challenge = new_challenge()
            self._send_welcome(channel)
            self._set_timeout("no_attach")
        else:  # its address is the proof
            self._claim_epoch(channel)

    def _send_welcome(self, channel: WorkspaceChannel) -> None:
        limits = self._parts.limits
        self._send(
            Welcome(
                workspace=channel.workspace,
                agent_id=channel.workspace,
                epoch=self._epoch,
                heartbeat_s=limits.heartbeat,
                max_line=limits.max_line,
                challenge=self._challenge,
            )
        )

    def _on_attach(self, attach: Attach) -> None:
        channel, offer, challenge = self._channel, self._offer, self._challenge
        assert channel is not None  # noqa: S101  it was challenged
        assert offer is not None  # noqa: S101
        assert challenge is not None  # noqa: S101
        good = attach.sid == offer.sid and verify_mac(
            attach.mac,
            channel.key or b"",
            challenge=challenge,
            sid=offer.sid,
            agent_id=channel.workspace,
            epoch=self._epoch,
        )
        self._challenge = None
        if not good or not channel.key:
            self.refuse("wrong_mac", "the answer to the challenge is not that of this workspace's key")
        elif channel.fence is not None:
            self.refuse(f"attach_while_{channel.fence}", channel.fence_reason)
        else:
            self._claim_epoch(channel)

    def _claim_epoch(self, channel: WorkspaceChannel) -> None:
        """It is who it says it is: the epoch is its own, on the disk before it is attached. An agent that attaches
        again and again waits for its allowance."""
        if not self._check_epoch(channel):
            return
        channel.epoch = self._epoch
        self.connection.hold()
        pause = channel.rate_limiter.spend(ATTACH_UNITS)
        if pause:
            self._timer.cancel()
            self._timer = self._parts.timers.call_later(pause, lambda: self._save_epoch(channel))
        else:
            self._save_epoch(channel)

    def _save_epoch(self, channel: WorkspaceChannel) -> None:
        self._set_timeout("no_epoch")
        self._parts.ledger_writer.save_epoch(channel.workspace, self._epoch, lambda: self._start_session(channel))

    # ---------------------------------------------------------------- out

    def _check_epoch(self, channel: WorkspaceChannel) -> bool:
        """Whether no younger life of the workspace is or was attached; else it is refused."""
        attached = channel.session
        if self._epoch >= channel.epoch and (attached is None or not self._is_older_copy(attached)):
            return True
        self.refuse("superseded", f"epoch {channel.epoch} was attached already")
        return False

    def _start_session(self, channel: WorkspaceChannel) -> None:
        """Its epoch is on the disk: it takes the place of the attachment before."""
        if self._finished or self.connection.closed or not self._check_epoch(channel):
            return
        if channel.auth == "none" and self._offer is not None:
            self._send_welcome(channel)
        self._finish()
        for row in self._audit_rows:
            self._parts.audit_log.write(row)
        elder = channel.session
        if elder is not None:
            self._parts.metrics.count("superseded")
            elder.send(Nack(code="superseded", detail=f"epoch {self._epoch} is attached now"))
            elder.end("superseded")
        session = channel.session = AgentSession(self._parts, channel, self.connection, self._epoch, self._offer)
        session.broken_before = self._broken
        session.start(self._ack)
        for line in self._early_lines:
            session.on_line(line)
        session.resume_reading()

    def _is_older_copy(self, attached: AgentSession) -> bool:
        """Whether the one that is attached is the younger life: of two copies of a guest, the elder says by its offer
        that it has not heard of the epoch in which the other one works."""
        known = self._offer.epoch if self._offer is not None else 0
        return attached.confirmed and 0 < known < attached.epoch

    def refuse(self, code: str, detail: str | None = None) -> None:
        """Ends it. Whoever sent something and is not who he should be is an alarm."""
        if self._finished:
            return
        self._parts.metrics.count("refused_attachments", code)
        workspace = self._channel.workspace if self._channel else None
        if self.connection.received_bytes and code != "closing":
            self._parts.audit_log.alarm(
                code,
                detail or "a connection was refused",
                workspace=workspace,
                epoch=self._epoch,
                connection=self.connection.number,
            )
        if self._offer is not None and self._epoch:
            self._send(Nack(code=code, detail=detail))
        self._finish()
        self.connection.close(code)

    def _send(self, frame: Control) -> None:
        line = encode(frame)
        self._add_audit_row("out", frame.ctl, line[:-1])
        self.connection.send(line)

    def _add_audit_row(self, direction: Direction, kind: str, line: bytes) -> None:
        self._audit_rows.append(
            self._parts.audit_log.make_row(
                direction,
                kind,
                line,
                workspace=self._channel.workspace if self._channel else None,
                epoch=self._epoch,
                connection=self.connection.number,
            )
        )

    def _set_timeout(self, code: str) -> None:
        self._timer.cancel()
        self._timer = self._parts.timers.call_later(self._parts.limits.handshake_timeout, lambda: self.refuse(code))

    def _finish(self) -> None:
        self._finished = True
        self._timer.cancel()
        if self._channel is not None:
            self._channel.offered_epochs.discard(self._epoch)
        self._on_finished(self)

    def on_lost(self, reason: str) -> None:
        if self._finished:
            return
        if not self.connection.received_bytes:
            self._parts.metrics.count("probes")
        else:
            self._parts.metrics.count("refused_attachments", "gone_before_attached")
        self._finish()
