"""Find out which agent has connected, and attach it (docs/protocols/mediation.md#24-order).

The host sends nothing before the guest's first line. A connection that closes without a byte is a readiness probe: it
is counted and has no other effect.

An agent that has not proved who it is cannot fill the disk or raise a workspace's epoch: its frames are audited only
once it is attached, and the epoch is stored only after the proof.
"""

from __future__ import annotations

from collections.abc import Callable

from agent_common.protocol.work import (
    ApiOpened,
    Attach,
    ConstraintAck,
    Control,
    FrameFault,
    LifecycleSignal,
    Nack,
    encode,
)

from ..audit.audit_log import AuditRow
from ..channels.channel import WorkspaceChannel
from ..channels.rate_limit import ATTACH_UNITS
from ..metrics import Direction
from ..timers import Timer
from .attach import AttachClaim, AttachRefused
from .parsing import kind_of
from .services import SessionServices
from .socket import AgentConnection

_MOST_EARLY = 64
"""Number of lines that an agent may send before it is attached."""
_MOST_BYTES = 256 << 10
"""Number of bytes that an agent may send before it is attached."""


class Handshake:
    """The handshake of one connection, from its first byte until it is attached, refused or lost."""

    __slots__ = (
        "_ack",
        "_audit_rows",
        "_broken_before",
        "_channel",
        "_claim",
        "_early_lines",
        "_finished",
        "_greeted",
        "_on_finished",
        "_services",
        "_timer",
        "connection",
    )

    def __init__(
        self,
        services: SessionServices,
        channel: WorkspaceChannel | None,
        number: int,
        *,
        on_finished: Callable[[], object],
    ) -> None:
        """`channel`: the workspace that the agent dialled, None on the shared address. `number` names the connection in
        the audit trail. `on_finished` is called once, when the connection is attached, refused or lost."""
        self._services = services
        self._channel = channel
        self._on_finished = on_finished
        self._ack: ConstraintAck | None = None
        self._broken_before: str | None = None
        """Why the agent's last connection broke, in its words; None if it has not said."""
        self._early_lines: list[bytes] = []
        """Lines that came after the greeting and before the attachment; handled after it."""
        self._claim: AttachClaim | None = None
        """None until the agent has sent `ready`."""
        self._audit_rows: list[AuditRow] = []
        """Rows for the audit trail, written once the agent is attached."""
        self._greeted = self._finished = False
        limits = services.limits
        timers = services.timers
        self._timer: Timer = timers.call_later(limits.first_line_timeout, lambda: self.refuse("no_first_line"))
        self.connection = AgentConnection(number, self, limits=limits, timers=timers, clock=services.clock)

    # ---------------------------------------------------------------- in

    def on_line(self, line: bytes | FrameFault) -> None:
        if self._finished:
            return
        try:
            frame = self._services.parser.parse(self._channel, line)
        except FrameFault as fault:
            self._services.metrics.count("bad_lines", fault.code)
            self.refuse("bad_first_line", str(fault))
            return
        assert isinstance(line, bytes)  # noqa: S101  a fault was refused above
        if len(self._audit_rows) >= _MOST_EARLY or self.connection.received_bytes > _MOST_BYTES:
            self.refuse("too_much", "the agent sends too much before it has proved who it is")
            return
        self._add_audit_row("in", kind_of(frame), line)
        match frame:
            case ApiOpened() if not self._greeted:
                self._on_api_opened(frame, line)
            case LifecycleSignal(signal="ready") if not self._greeted:
                self._on_ready(frame)
            case LifecycleSignal() if not self._greeted:
                self._broken_before = frame.detail or frame.error or frame.signal
            case ConstraintAck() if not self._greeted:
                self._ack = frame
            case Attach() if self._claim is not None and self._claim.challenge is not None:
                self._on_attach(self._claim, frame)
            case _ if self._greeted:
                self._early_lines.append(line)  # sent without waiting for the greeting: handled once attached
            case _:
                self.refuse("out_of_order", f"{kind_of(frame)} came before `ready`")

    def _on_ready(self, ready: LifecycleSignal) -> None:
        """Challenge the agent that `ready` names, or attach it at once if its address is the proof."""
        self._greeted = True
        channel = self._channel or self._services.channels.find(ready.agent_id)
        if channel is None or (self._channel is None and channel.auth == "none"):
            self.refuse("unknown_agent", f"no workspace {ready.agent_id[:100]!r} uses this address")
            return
        self._channel = channel
        try:
            self._claim = claim = AttachClaim.from_ready(channel, ready)
        except AttachRefused as refused:
            self.refuse(refused.code, refused.detail)
            return
        if claim.challenge is None:
            self._claim_epoch(claim)
        else:
            self._send(claim.welcome(self._services.limits))
            self._set_timeout("no_attach")

    def _on_attach(self, claim: AttachClaim, attach: Attach) -> None:
        try:
            claim.verify(attach)
        except AttachRefused as refused:
            self.refuse(refused.code, refused.detail)
        else:
            self._claim_epoch(claim)

    def _on_api_opened(self, frame: ApiOpened, line: bytes) -> None:
        """Let the attached agent's API use this connection, if it was asked for and carries nothing else yet."""
        channel = self._channel or self._services.channels.find(frame.agent_id)
        session = channel.session if channel is not None else None
        at_its_address = channel is not None and (self._channel is channel or channel.auth == "hmac")
        alone = self.connection.received_bytes <= len(line) + len(b"\r\n")
        if session is None or not at_its_address or not alone or not session.api.claim(frame, self.connection):
            self.refuse("unknown_api_connection", "the host has not asked this agent for a connection")
            return
        self._services.metrics.count("api_connections")
        self._finish()

    # ---------------------------------------------------------------- proved

    def _claim_epoch(self, claim: AttachClaim) -> None:
        """Store the epoch of an agent that has proved who it is, then attach it. An agent that attaches too often waits
        until its rate limit allows it."""
        try:
            claim.check_newest()
        except AttachRefused as refused:
            self.refuse(refused.code, refused.detail)
            return
        claim.channel.epoch = claim.epoch
        self.connection.hold()
        pause = claim.channel.rate_limiter.spend(ATTACH_UNITS)
        if pause:
            self._timer.cancel()
            self._timer = self._services.timers.call_later(pause, lambda: self._save_epoch(claim))
        else:
            self._save_epoch(claim)

    def _save_epoch(self, claim: AttachClaim) -> None:
        self._set_timeout("no_epoch")
        self._services.channels.save_epoch(claim.channel, claim.epoch, lambda: self._attach(claim))

    def _attach(self, claim: AttachClaim) -> None:
        """Hand the connection over to a session, once the epoch is stored."""
        if self._finished or self.connection.closed:
            return
        try:
            claim.check_newest()
        except AttachRefused as refused:
            self.refuse(refused.code, refused.detail)
            return
        if claim.channel.auth == "none" and claim.offer is not None:
            self._send(claim.welcome(self._services.limits))
        self._finish()
        for row in self._audit_rows:
            self._services.audit_log.write(row)
        session = claim.start_session(self._services, self.connection, ack=self._ack, broken_before=self._broken_before)
        for line in self._early_lines:
            session.reader.on_line(line)
        session.reader.resume()

    # ---------------------------------------------------------------- out

    def refuse(self, code: str, detail: str | None = None) -> None:
        """End the connection, with an alarm if the peer has sent anything."""
        if self._finished:
            return
        self._services.metrics.count("refused_attachments", code)
        workspace = self._channel.workspace if self._channel else None
        if self.connection.received_bytes and code != "closing":
            self._services.audit_log.alarm(
                code,
                detail or "the connection was refused",
                workspace=workspace,
                epoch=self._claim.epoch if self._claim else 0,
                connection=self.connection.number,
            )
        if self._claim is not None and self._claim.offer is not None:
            self._send(Nack(code=code, detail=detail))
        self._finish()
        self.connection.close(code)

    def _send(self, frame: Control) -> None:
        line = encode(frame)
        self._add_audit_row("out", frame.ctl, line[:-1])
        self.connection.send(line)

    def _add_audit_row(self, direction: Direction, kind: str, line: bytes) -> None:
        self._audit_rows.append(
            self._services.audit_log.make_row(
                direction,
                kind,
                line,
                workspace=self._channel.workspace if self._channel else None,
                epoch=self._claim.epoch if self._claim else 0,
                connection=self.connection.number,
            )
        )

    def _set_timeout(self, code: str) -> None:
        self._timer.cancel()
        self._timer = self._services.timers.call_later(
            self._services.limits.handshake_timeout, lambda: self.refuse(code)
        )

    def _finish(self) -> None:
        self._finished = True
        self._timer.cancel()
        if self._claim is not None:
            self._claim.release()
        self._on_finished()

    def on_lost(self, reason: str) -> None:
        if self._finished:
            return
        if not self.connection.received_bytes:
            self._services.metrics.count("probes")
        else:
            self._services.metrics.count("refused_attachments", "gone_before_attached")
        self._finish()
