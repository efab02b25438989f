"""What the parts of this package want of each other, and of the agents that they serve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..protocol.hub import Envelope, SessionInfo, ViewMessage, ViewPolicy


@dataclass(frozen=True, slots=True)
class MemoryStream:
    """What an agent has seen of a session before it is asked."""

    history: Sequence[ViewMessage] = ()


class NetworkAgent(Protocol):
    """An agent that can be asked."""

    async def ask(self, text: str, *, stream: MemoryStream, dependencies: Mapping[str, Any]) -> object:
        """Answer a text. The reply's `content`, or else `str` of it, is sent back; nothing is, if that is empty."""
        ...


class SessionClient(Protocol):
    """In whose name a session is used."""

    async def send_envelope(self, envelope: Envelope) -> str: ...

    async def session_info(self, session_id: str) -> SessionInfo: ...

    async def close_session(self, session_id: str, reason: str) -> None: ...

    async def default_view_policy(self, session_id: str) -> ViewPolicy: ...
