"""The agents of a team, which are asked and given messages (docs/reference/peers.md)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from secrets import token_hex

from agent_common.protocol import (
    DEFAULT_ASK_SECONDS,
    DEFAULT_HAND_OFF_SECONDS,
    AskReply,
    CancelledAsk,
    HandedOff,
    PeerAgent,
    PeerList,
)

from ..http import Call, Connection, pages, path, without_none
from .requests import team_params

ANSWER_SECONDS = 30.0
"""How much later than its deadline the end of an ask may come."""


class TeamAgents:
    """The agents that have posted a card. With the operator's token and no name of a team, those of all teams."""

    def __init__(self, connection: Connection, team: str | None) -> None:
        self._connection = connection
        self._team = team_params(team)

    async def list(self, *, capability: str | None = None, text: str | None = None) -> AsyncGenerator[PeerAgent]:
        """Yield the agents by id: all, or those with a skill, tool, agent or protocol of this name, or with this text
        in their card."""
        params = self._team | without_none(capability=capability, q=text)
        async for page in pages(self._connection, PeerList, Call("GET", "/agents", params=params)):
            for agent in page.agents:
                yield agent

    async def get(self, id: str) -> PeerAgent:
        """Read the card of one. Raises NotFound."""
        return await self._connection.fetch(PeerAgent, Call("GET", path("agents", id), params=self._team))

    async def ask(
        self, id: str, message: str, *, seconds: float = DEFAULT_ASK_SECONDS, key: str | None = None
    ) -> AskReply:
        """Give an agent a message as work of its own, and wait for its end, however it ends: `status` says.

        The same `key` with the same message is the same work. Raises NotFound, Conflict."""
        call = self._give(id, "ask", message, seconds, key, timeout=seconds + ANSWER_SECONDS)
        return await self._connection.fetch(AskReply, call)

    async def cancel(self, id: str, key: str) -> CancelledAsk:
        """Cancel what was asked with this key. No effect if it has ended. Raises NotFound."""
        headers = {"Idempotency-Key": key}
        call = Call("DELETE", path("agents", id, "ask"), params=self._team, headers=headers, repeatable=True)
        return await self._connection.fetch(CancelledAsk, call)

    async def hand_off(
        self, id: str, message: str, *, seconds: float = DEFAULT_HAND_OFF_SECONDS, key: str | None = None
    ) -> HandedOff:
        """Give an agent a message as work that is done whenever the agent is there, and do not wait: it is on the
        host's disk then. `seconds`: how long the work may take once it has begun.

        The same `key` with the same message is the same work. Raises NotFound, Conflict."""
        return await self._connection.fetch(HandedOff, self._give(id, "hand-off", message, seconds, key))

    def _give(
        self, id: str, verb: str, message: str, seconds: float, key: str | None, timeout: float | None = None
    ) -> Call:
        return Call(
            "POST",
            path("agents", id, verb),
            json={"message": message, "deadline_s": seconds},
            params=self._team,
            headers={"Idempotency-Key": key or token_hex(16)},
            repeatable=True,
            timeout=timeout,
        )
