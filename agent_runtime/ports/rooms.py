"""The interface to what the host keeps for the agents of a team: blackboard, topics and web services."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

MESH_SECONDS = 15.0
"""Seconds that a request may take, unless it says otherwise."""
MAX_MESH_BYTES = 5 * 1024 * 1024
"""Most bytes of an answer; a page of the blackboard ends after 4 MiB."""


@dataclass(frozen=True, slots=True)
class MeshRequest:
    """One request to the host."""

    method: str
    path: str
    """With its query; percent-encoded."""
    body: bytes | None = None
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
    max_bytes: int = MAX_MESH_BYTES


@dataclass(frozen=True, slots=True)
class MeshReply:
    """The host's answer."""

    status: int
    headers: Mapping[str, str]
    """Headers, with lower-case names."""
    body: bytes
    """At most about `max_bytes` of it."""


class Rooms(Protocol):
    """What the host keeps. Nothing is queued: a request is answered now, or it fails."""

    async def request(self, request: MeshRequest) -> MeshReply:
        """Return an answer with an accepted status. Raises MeshUnavailable if there is no host or it does not offer
        this, and ToolFailure if it refuses the request."""
        ...
