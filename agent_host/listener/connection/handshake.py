"""Greet a new connection until the host knows which agent it is (docs/protocols/mediation.md#24-order).

The host is silent until the guest's first line. A connection that closes without a byte is a readiness probe: it is
counted and has no other effect.

What a stranger does is counted and not written: its frames get their rows once it is attached, and only an agent that
has proved who it is raises a workspace's epoch.
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

from ..audit.audit_log import AuditRow
from ..channels.channel import WorkspaceChannel
from ..channels.rate_limit import ATTACH_UNITS
from ..channels.workspace_channels import WorkspaceChannels
from ..metrics import Direction
from ..timers import Timer
from .attach import ProvenAgent
from .events import SessionServices
from .parsing import kind_of
from .socket import AgentConnection

_MOST_EARLY = 64
"""Lines that an agent may send before it is attached."""
_MOST_BYTES = 256 << 10
"""Bytes of those lines."""


class Handshake:
    """A connection that has proved nothing yet."""

    __slots__ = (
        "_ack",
        "_audit_rows",
        "_broken",
        "_challenge",
        "_channel",
        "_channels",
        "_early_lines",
        "_epoch",
        "_finished",
        "_greeted",
        "_offer",
        "_on_finished",
        "_services",
        "_timer",
        "connection",
    )

    def __init__(
        self,
        services: SessionServices,
        channels: WorkspaceChannels,
        channel: WorkspaceChannel | None,
        number: int,
        *,
        on_finished: Callable[[], object],
    ) -> None:
        """`channel`: the workspace whose own address the connection came to, else None. `number`: of the connection.
        `on_finished` is called once the connection is attached, refused or lost."""
        self._services, self._channels, self._channel = services, channels, channel
        self._on_finished = on_finished
        self._ack: ConstraintAck | None = None
        self._broken: str | None = None
        """Why the agent's last connection broke, as it says."""
        self._early_lines: list[bytes] = []
        """Lines that came before the agent was attached; read afterwards."""
        self._offer: Offer | None = None
        self._challenge: str | None = None
        self._audit_rows: list[AuditRow] = []
        """Written once the agent is attached."""
        self._epoch = 0
        self._greeted = self._finished = False
        limits, timers = services.limits, services.timers
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
                self._early_lines.append(line)  # it did not wait for our greeting: read once it is attached
            case _:
                self.refuse("out_of_order", f"{kind_of(frame)} before it has said who it is")

    def _on_ready(self, ready: LifecycleSignal) -> None:
        self._greeted = True
        channel = self._channel or self._channels.find(ready.agent_id)
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
        limits = self._services.limits
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
        """The agent has proved who it is: store its epoch, then attach it. An agent that attaches again and again waits
        for its allowance."""
        agent = ProvenAgent(channel, self._epoch, self._offer, self._ack, self._broken)
        if self._refuse_superseded(agent):
            return
        channel.epoch = self._epoch
        self.connection.hold()
        pause = channel.rate_limiter.spend(ATTACH_UNITS)
        if pause:
            self._timer.cancel()
            self._timer = self._services.timers.call_later(pause, lambda: self._save_epoch(agent))
        else:
            self._save_epoch(agent)

    def _save_epoch(self, agent: ProvenAgent) -> None:
        self._set_timeout("no_epoch")
        self._channels.save_epoch(agent.channel, self._epoch, lambda: self._attach(agent))

    def _attach(self, agent: ProvenAgent) -> None:
        """Hand the connection over to a session: the epoch is on the disk."""
        if self._finished or self.connection.closed or self._refuse_superseded(agent):
            return
        if agent.channel.auth == "none" and self._offer is not None:
            self._send_welcome(agent.channel)
        self._finish()
        for row in self._audit_rows:
            self._services.audit_log.write(row)
        session = agent.start_session(self._services, self.connection)
        for line in self._early_lines:
            session.reader.on_line(line)
        session.reader.resume()

    # ---------------------------------------------------------------- out

    def _refuse_superseded(self, agent: ProvenAgent) -> bool:
        """Refuse the agent, and return True, if a newer copy of it is or was attached."""
        if not agent.superseded:
            return False
        self.refuse("superseded", f"epoch {agent.channel.epoch} was attached already")
        return True

    def refuse(self, code: str, detail: str | None = None) -> None:
        """End the connection. It is an alarm if the peer has sent anything."""
        if self._finished:
            return
        self._services.metrics.count("refused_attachments", code)
        workspace = self._channel.workspace if self._channel else None
        if self.connection.received_bytes and code != "closing":
            self._services.audit_log.alarm(
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
            self._services.audit_log.make_row(
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
        self._timer = self._services.timers.call_later(
            self._services.limits.handshake_timeout, lambda: self.refuse(code)
        )

    def _finish(self) -> None:
        self._finished = True
        self._timer.cancel()
        if self._channel is not None:
            self._channel.offered_epochs.discard(self._epoch)
        self._on_finished()

    def on_lost(self, reason: str) -> None:
        if self._finished:
            return
        if not self.connection.received_bytes:
            self._services.metrics.count("probes")
        else:
            self._services.metrics.count("refused_attachments", "gone_before_attached")
        self._finish()
