"""The interface to the hub, for those who must not load it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

HUB_PRINCIPAL = "hub:agents"
"""The principal of the sessions in which other agents are answered. All that is said in them comes from outside."""


@dataclass(frozen=True, slots=True)
class HubCaller:
    """The call in whose name something is done on the hub."""

    principal: str
    task_id: str
    """Of a turn that answers an envelope: the envelope's id."""
    key: str
    """The same for a call that is repeated."""


class HubAccess(Protocol):
    """The hub, as an agent's tools use it. Each raises MeshUnavailable while the hub is away, and ToolFailure."""

    async def peers(self, *, capability: str | None, text: str | None, limit: int) -> list[dict[str, Any]]:
        """Return other agents of the hub."""
        ...

    async def delegate(self, caller: HubCaller, agent: str, text: str, seconds: float) -> dict[str, Any]:
        """Ask an agent something, wait for its answer, and return it."""
        ...

    async def say(
        self,
        caller: HubCaller,
        text: str,
        *,
        session: str | None,
        audience: Sequence[str] | None,
        hand_over_to: str | None,
    ) -> dict[str, Any]:
        """Send a text to a session; None: to the one in which this turn answers."""
        ...

    async def list_sessions(self) -> list[dict[str, str]]:
        """Return the sessions that the agent takes part in."""
        ...

    async def open_session(
        self, caller: HubCaller, type: str, agents: Sequence[str], text: str | None
    ) -> dict[str, Any]:
        """Open a session, and say something in it."""
        ...

    async def read_session(self, session: str, after: int, limit: int) -> dict[str, Any]:
        """Return what a session is, and what was said in it after a number."""
        ...

    async def close_session(self, session: str) -> None:
        """Close a session that the agent has opened."""
        ...
