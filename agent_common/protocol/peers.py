"""Agents of a team that know and ask each other (docs/reference/peers.md)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from .base import Inbound, Peer

MAX_MESSAGE = 100_000
"""Characters of a message to another agent."""
DEFAULT_ASK_SECONDS = 120.0
MAX_ASK_SECONDS = 600.0
DEFAULT_HAND_OFF_SECONDS = 3600.0
MAX_HAND_OFF_SECONDS = 86_400.0
ASK_KEY = r"^[\x21-\x7e]{1,200}$"
"""An idempotency key: printable ASCII without spaces."""
Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Message = Annotated[str, StringConstraints(min_length=1, max_length=MAX_MESSAGE)]


class Skill(Inbound):
    """Something that an agent can do, or an agent that it has."""

    name: Name
    description: str = Field(default="", max_length=1000)


class PeerCard(Inbound):
    """Body of `POST /agents`: what an agent says of itself. Posting again replaces it."""

    name: Name
    """For people; the id is that of the token."""
    role: str = Field(default="", max_length=200)
    agents: list[Skill] = Field(default_factory=list[Skill], max_length=200)
    """The agents that carry out its work."""
    skills: list[Skill] = Field(default_factory=list[Skill], max_length=500)
    tools: list[Name] = Field(default_factory=list[str], max_length=1000)
    protocols: dict[Name, Name] = Field(default_factory=dict[str, str], max_length=50)
    """Its protocols and their versions."""


PeerState = Literal["attached", "away", "unknown"]
"""`attached`: its channel to the host is open; `away`: it is not; `unknown`: it has none."""


class PeerAgent(Peer):
    """An agent that has posted its card."""

    id: str
    team: str
    state: PeerState
    name: str
    role: str
    agents: list[Skill]
    skills: list[Skill]
    tools: list[str]
    protocols: dict[str, str]
    updated_at: int
    """When it posted the card, in epoch milliseconds."""


class PeerList(Peer):
    """A page of `GET /agents`, by id."""

    agents: list[PeerAgent]
    next: str | None = Field(default=None, exclude_if=lambda value: value is None)
    """Pass it as `after` for the next page."""


class AskPeer(Inbound):
    """Body of `POST /agents/{id}/ask`."""

    message: Message
    deadline_s: float = Field(default=DEFAULT_ASK_SECONDS, gt=0, le=MAX_ASK_SECONDS, allow_inf_nan=False)
    """Seconds until the work is over, its time in the queue included."""


AskStatus = Literal["completed", "failed", "denied", "yielded", "timeout", "cancelled", "unavailable"]
"""`yielded`: stopped at a limit, perhaps with a part of the answer; `unavailable`: the agent did not begin or was lost;
`timeout`: the deadline passed, and the work is cancelled."""


class AskReply(Peer):
    """What a peer has answered."""

    status: AskStatus
    response: dict[str, Any] | None = None
    """The result of the task, `{"text": ...}` if it is text; null if there is none."""
    error: str | None = None
    """A code, a colon and an explanation; null if it is completed."""
    request_id: str
    """The work, for the operator's `GET /work/{id}`."""


class CancelledAsk(Peer):
    """What an agent was asked, after its caller has cancelled it."""

    request_id: str
    status: str
    """As in `GET /work/{id}`: `cancelled` once the agent has stopped, unless the work has ended in another way."""


class HandOff(Inbound):
    """Body of `POST /agents/{id}/hand-off`."""

    message: Message
    deadline_s: float = Field(default=DEFAULT_HAND_OFF_SECONDS, gt=0, le=MAX_HAND_OFF_SECONDS, allow_inf_nan=False)
    """Seconds that the work may take once it has begun."""


class HandedOff(Peer):
    """Work that is on the host's disk, and is done whenever the agent is there."""

    request_id: str
    status: str
    """As in `GET /work/{id}`: `queued`, `dispatched`, `accepted`, `resulted`, `dead`, `cancelled` or `expired`."""
