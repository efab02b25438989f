"""Rules of a user for all sessions with an agent
(docs/reference/permissions.md#the-rules-of-a-person-for-an-agent)."""

from __future__ import annotations

from collections.abc import Sequence

from agent_common.protocol import AgentPermissions, AgentPermissionsList, AgentRule

from .http import Call, Connection, path


class AgentRules:
    """What one user has allowed for good, or ruled otherwise, by the name of the agent."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def list(self) -> Sequence[AgentPermissions]:
        """Return the agents for which the user has rules."""
        return (await self._connection.fetch(AgentPermissionsList, Call("GET", "/permissions"))).permissions

    async def get(self, agent: str) -> AgentPermissions:
        """Read the user's rules for an agent, beside those of others. Raises NotFound."""
        return await self._connection.fetch(AgentPermissions, Call("GET", path("permissions", agent)))

    async def set(self, agent: str, rules: Sequence[AgentRule]) -> AgentPermissions:
        """Replace the user's rules for an agent; they hold from the next call on. Raises NotFound."""
        body = {"rules": [rule.model_dump(mode="json") for rule in rules]}
        call = Call("PUT", path("permissions", agent), json=body, repeatable=True)
        return await self._connection.fetch(AgentPermissions, call)

    async def clear(self, agent: str) -> AgentPermissions:
        """Take back all rules for an agent. Raises NotFound."""
        return await self._connection.fetch(
            AgentPermissions, Call("DELETE", path("permissions", agent), repeatable=True)
        )
