"""Attach an agent that has proved who it is, in place of the one before."""

from __future__ import annotations

from dataclasses import dataclass

from agent_common.protocol.work import ConstraintAck, Nack, Offer

from ..channels.channel import WorkspaceChannel
from .events import SessionServices
from .session import AgentSession
from .socket import AgentConnection


@dataclass(frozen=True, slots=True)
class ProvenAgent:
    """An agent whose identity is proved, and what its greeting has said."""

    channel: WorkspaceChannel
    epoch: int
    """The number of its attachment."""
    offer: Offer | None
    """Its extensions; None if it has offered none."""
    ack: ConstraintAck | None
    """The constraints that it has; None if it has named none."""
    broken_before: str | None
    """Why its last connection broke, as it says; None if it has said nothing."""

    @property
    def superseded(self) -> bool:
        """Whether a newer copy of the agent is or was attached."""
        return self.epoch < self.channel.epoch or self._is_older_copy

    @property
    def _is_older_copy(self) -> bool:
        """Whether the attached guest is newer: of two copies (a fork, a restored snapshot) the older one offers an
        epoch from before the one in which the other works."""
        attached, known = self.channel.session, self.offer.epoch if self.offer is not None else 0
        return attached is not None and attached.confirmed and 0 < known < attached.epoch

    def start_session(self, services: SessionServices, connection: AgentConnection) -> AgentSession:
        """End the session before, and start one over this connection."""
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
            broken_before=self.broken_before,
        )
        session.start(self.ack)
        return session
