"""An agent's claim to a workspace: what it offers, how it is proved, and how it replaces the attachment before."""

from __future__ import annotations

from dataclasses import dataclass

from agent_common.protocol.work import (
    Attach,
    ConstraintAck,
    LifecycleSignal,
    Nack,
    Offer,
    Welcome,
    new_challenge,
    verify_mac,
)

from ..channels.channel import WorkspaceChannel
from ..limits import ListenerLimits
from .events import SessionServices
from .session import AgentSession
from .socket import AgentConnection


class AttachRefused(Exception):
    """The agent may not attach."""

    def __init__(self, code: str, detail: str | None) -> None:
        super().__init__(code)
        self.code, self.detail = code, detail


@dataclass(slots=True)
class AttachClaim:
    """An agent that says that it is a workspace's own."""

    channel: WorkspaceChannel
    epoch: int
    """The number that its attachment gets. Reserved among the channel's `offered_epochs` until `release`."""
    offer: Offer | None
    """Its extensions; None if it has offered none."""
    challenge: str | None
    """What it must answer to prove its identity; None if it has answered, or its address is the proof."""

    @classmethod
    def from_ready(cls, channel: WorkspaceChannel, ready: LifecycleSignal) -> AttachClaim:
        """The claim of an agent's first line. Raises AttachRefused."""
        if channel.fence is not None:
            raise AttachRefused(f"attach_while_{channel.fence}", channel.fence_reason)
        offer = None if channel.loose else Offer.parse(ready.detail)
        if channel.auth == "hmac" and offer is None:
            raise AttachRefused("unauthenticated", "it offers no extensions, so that it can prove nothing")
        epoch = max(channel.epoch, *channel.offered_epochs, 0) + 1
        channel.offered_epochs.add(epoch)
        return cls(channel, epoch, offer, new_challenge() if channel.auth == "hmac" else None)

    def welcome(self, limits: ListenerLimits) -> Welcome:
        """The host's greeting, with the challenge if there is one."""
        return Welcome(
            workspace=self.channel.workspace,
            agent_id=self.channel.workspace,
            epoch=self.epoch,
            heartbeat_s=limits.heartbeat,
            max_line=limits.max_line,
            challenge=self.challenge,
        )

    def verify(self, attach: Attach) -> None:
        """Check the answer to the challenge, which may be given once. Raises AttachRefused."""
        challenge, self.challenge = self.challenge, None
        assert self.offer is not None  # noqa: S101  it was challenged
        assert challenge is not None  # noqa: S101
        good = attach.sid == self.offer.sid and verify_mac(
            attach.mac,
            self.channel.key or b"",
            challenge=challenge,
            sid=self.offer.sid,
            agent_id=self.channel.workspace,
            epoch=self.epoch,
        )
        if not good or not self.channel.key:
            detail = "the answer to the challenge is not that of this workspace's key"
            raise AttachRefused("wrong_mac", detail)
        if self.channel.fence is not None:
            raise AttachRefused(f"attach_while_{self.channel.fence}", self.channel.fence_reason)

    def check_newest(self) -> None:
        """Raise AttachRefused if a newer copy of the agent is or was attached."""
        if self.epoch < self.channel.epoch or self._is_older_copy():
            raise AttachRefused("superseded", f"epoch {self.channel.epoch} was attached already")

    def _is_older_copy(self) -> bool:
        """Whether the attached guest is newer: of two copies (a fork, a restored snapshot) the older one offers an
        epoch from before the one in which the other works."""
        attached, known = self.channel.session, self.offer.epoch if self.offer is not None else 0
        return attached is not None and attached.confirmed and 0 < known < attached.epoch

    def start_session(
        self,
        services: SessionServices,
        connection: AgentConnection,
        *,
        ack: ConstraintAck | None,
        broken_before: str | None,
    ) -> AgentSession:
        """End the session before, and start one over this connection. `ack` and `broken_before`: what the agent has
        said of its constraints and of its last connection; None if nothing."""
        before = self.channel.session
        if before is not None:
            services.metrics.count("superseded")
            before.send(Nack(code="superseded", detail=f"epoch {self.epoch} is attached now"))
            before.end("superseded")
        session = self.channel.session = AgentSession(
            services,
            channel=self.channel,
            connection=connection,
            epoch=self.epoch,
            offer=self.offer,
            broken_before=broken_before,
        )
        session.start(ack)
        return session

    def release(self) -> None:
        """The epoch is given, or is not needed any more."""
        self.channel.offered_epochs.discard(self.epoch)
