"""The host's own requests to the APIs of its agents, over the gateway's connections: a fence cuts them too."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from agent_common.net import TransportFault

from ..fleet import Fleet
from ..gateway import AgentConnection, AgentConnections, AgentUnreachable, request_head


class AgentApi:
    """Sends requests to agents that run."""

    def __init__(self, fleet: Fleet, connections: AgentConnections) -> None:
        self._fleet = fleet
        self._connections = connections

    @asynccontextmanager
    async def get(
        self, workspace_id: str, target: str, seconds: float, *, user: str | None = None, last_event: int | None = None
    ) -> AsyncGenerator[AgentConnection]:
        """Send a GET, and give the connection when the head of a successful answer has come, at most `seconds` later.

        `user`: the user that the host speaks for; None: the operator, for all. Raises NotFound, Conflict if the agent
        does not run or is in quarantine, NotOffered, and AgentUnreachable, in the body of the `with` too.
        """
        agent = await self._fleet.running_agent(workspace_id)
        headers = [] if last_event is None else [(b"last-event-id", b"%d" % last_event)]
        head = request_head("GET", target.encode("ascii"), headers, token=agent.token, user=user)
        try:
            async with asyncio.timeout(seconds):
                connection = await self._connections.open(workspace_id, agent, fresh=True)
            try:
                await connection.send(head, seconds)
                if connection.status != 200:
                    raise TransportFault(f"it answers {target} with {connection.status}")
                yield connection
            finally:
                self._connections.release(workspace_id, connection, complete=True)
        except (OSError, TransportFault) as error:
            raise AgentUnreachable(f"the agent of {workspace_id!r} does not answer: {error}") from error
