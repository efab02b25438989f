"""Check an agent's claim to a workspace, and replace the workspace's earlier attachment."""

from __future__ import annotations

from dataclasses import dataclass

from agent_common.protocol.work import (
    Attach,
    ConstraintAck,
    LifecycleSignal,
    Nack,
    Offer,
    Welcome,
    compute_host_mac,
    new_challenge,
    verify_mac,
)

from ..channels.channel import WorkspaceChannel
from ..limits import ListenerLimits
from .services import SessionServices
from .session import AgentSession
from .socket import AgentConnection


class AttachRefused(Exception):
    """The agent may not attach. `code` is stable, `detail` is for people."""

    def __init__(self, code: str, detail: str | None) -> None:
        super().__init__(code)
        self.code = code
        self.detail = detail


@dataclass(slots=True)
class AttachClaim:
    """The claim of a connected agent that it belongs to a workspace."""

    channel: WorkspaceChannel
    epoch: int
    """The number of its attachment, kept in the channel's `offered_epochs` until `release`."""
    offer: Offer | None
    """The extensions that the agent offers, or None."""
    challenge: str | None
    """The challenge that the agent must answer. None once it has answered, or if its address is the proof."""

    @classmethod
    def from_ready(cls, channel: WorkspaceChannel, ready: LifecycleSignal) -> AttachClaim:
        """Make the claim from an agent's `ready`, and reserve an epoch.

        Raises AttachRefused if the workspace is fenced, or if the agent would have to prove itself and offers no
        extensions.
        """
        if channel.fence is not None:
            raise AttachRefused(f"attach_while_{channel.fence}", channel.fence_reason)
        offer = None if channel.loose else Offer.parse(ready.detail)
        if channel.auth == "hmac" and offer is None:
            raise AttachRefused("unauthenticated", "the agent offers no extensions, so it cannot prove its identity")
        epoch = max(channel.epoch, *channel.offered_epochs, 0) + 1
        channel.offered_epochs.add(epoch)
        return cls(channel, epoch, offer, new_challenge() if channel.auth == "hmac" else None)

    def welcome(self, limits: ListenerLimits) -> Welcome:
        """Return the host's greeting, with the challenge and the host's own proof if there is a key."""
        return Welcome(
            workspace=self.channel.workspace,
            agent_id=self.channel.workspace,
            epoch=self.epoch,
            heartbeat_s=limits.heartbeat,
            max_line=limits.max_line,
            challenge=self.challenge,
            task_results=self.offer is not None and self.offer.task_results,
            mac=self._proof(),
        )

    def _proof(self) -> str | None:
        """Return the host's proof that it has the workspace's key, bound to the agent's connection."""
        name = self.channel.workspace
        key = self.channel.key
        if not key or self.offer is None:
            return None
        return compute_host_mac(key, challenge=self.challenge, sid=self.offer.sid, agent_id=name, epoch=self.epoch)

    def verify(self, attach: Attach) -> None:
        """Check the answer to the challenge; there is only one try. Raises AttachRefused if it is wrong, or if the
        workspace has been fenced."""
        challenge = self.challenge
        self.challenge = None
        assert self.offer is not None  # noqa: S101  only an agent with an offer is challenged
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
            detail = "the answer to the challenge was not made with this workspace's key"
            raise AttachRefused("wrong_mac", detail)
        self._check_fence()

    def _check_fence(self) -> None:
        if self.channel.fence is not None:
            raise AttachRefused(f"attach_while_{self.channel.fence}", self.channel.fence_reason)

    def check_newest(self) -> None:
        """Raise AttachRefused if a newer copy of the agent is attached or has been, or if the workspace has been
        fenced."""
        self._check_fence()
        if self.epoch < self.channel.epoch or self._is_older_copy():
            raise AttachRefused("superseded", f"epoch {self.channel.epoch} was attached already")

    def _is_older_copy(self) -> bool:
        """Whether this agent is an older copy (a fork, a restored snapshot) of the attached one: its offer names an
        epoch before the attached agent's."""
        attached = self.channel.session
        known = self.offer.epoch if self.offer is not None else 0
        return attached is not None and attached.confirmed and 0 < known < attached.epoch

    def start_session(
        self,
        services: SessionServices,
        connection: AgentConnection,
        *,
        ack: ConstraintAck | None,
        broken_before: str | None,
    ) -> AgentSession:
        """End the workspace's current session, and start one on this connection.

        `ack`: the constraints that the agent says it has. `broken_before`: why its last connection broke, in its words.
        Both are None if it has not said.
        """
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
        """Give up the reservation of the epoch: the agent has attached with it, or was refused."""
        self.channel.offered_epochs.discard(self.epoch)
