"""The interface to what the host keeps for the agents of a team: blackboard, topics, artifacts and web services."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from agent_common.net import SizedStream

MESH_SECONDS = 15.0
"""Seconds that a request may take, unless it says otherwise."""
TOPIC_SOURCE = "topic"
"""`trigger.source` of turns that messages of topics have started."""
MAX_MESH_BYTES = 5 * 1024 * 1024
"""Most bytes of an answer; a page of the blackboard ends after 4 MiB."""


@dataclass(frozen=True, slots=True)
class MeshRequest:
    """One request to the host."""

    method: str
    path: str
    """With its query; percent-encoded."""
    body: bytes | SizedStream | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Beside the token and the headers that name the cause."""
    session_id: str = ""
    """The session that causes it."""
    task_id: str = ""
    """The task that causes it; empty: none."""
    accepted: frozenset[int] = frozenset({200, 201, 204})
    """Statuses that are answers; others are raised."""
    accepted_header: str = ""
    """Instead: a header by which an answer of any status is one; empty: none."""
    seconds: float = MESH_SECONDS
    """Seconds that it may take as a whole."""
    silence: float | None = None
    """Seconds without a byte; None: `seconds`."""
    max_bytes: int = MAX_MESH_BYTES
    user: str = ""
    """Whose task it is, for a request that is made in the task's name; empty: not named."""

    @property
    def silent_seconds(self) -> float:
        return self.seconds if self.silence is None else self.silence


@dataclass(frozen=True, slots=True)
class MeshReply:
    """The host's answer."""

    status: int
    headers: Mapping[str, str]
    """Headers, with lower-case names."""
    body: bytes
    """At most about `max_bytes` of it."""


@dataclass(frozen=True, slots=True)
class MeshStream:
    """The host's answer as it comes."""

    status: int
    headers: Mapping[str, str]
    pieces: AsyncIterator[bytes]
    """Raises MeshUnavailable if it breaks off."""


class TeamRequests(Protocol):
    """What the host keeps. Nothing is queued: a request is answered now, or it fails."""

    async def request(self, request: MeshRequest) -> MeshReply:
        """Return an answer with an accepted status. Raises MeshUnavailable if there is no host or it does not offer
        this, and ToolFailure if it refuses the request."""
        ...

    def open(self, request: MeshRequest) -> AbstractAsyncContextManager[MeshStream]:
        """Open an answer whose body is read while it comes, within the request's `seconds`. Raises the same."""
        ...
