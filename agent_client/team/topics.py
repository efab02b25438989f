"""The topics of a team: messages that agents publish, stored in their order (docs/reference/topics.md)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from secrets import token_hex
from typing import Any

from agent_common.protocol import Published, TopicMessage, TopicMessages

from ..http import Call, Connection, pages, path
from .requests import TeamEvent, follow_team, team_params


class Topics:
    """The topics, by name."""

    def __init__(self, connection: Connection, team: str | None) -> None:
        self._connection = connection
        self._team = team_params(team)

    async def publish(self, name: str, data: Any, *, id: str | None = None) -> Published:
        """Publish any JSON value. The same `id` with the same data is published once; other data raises Conflict."""
        body = {"id": id or f"msg_{token_hex(12)}", "data": data}
        call = Call("POST", path("topics", name), json=body, params=self._team, repeatable=True)
        return await self._connection.fetch(Published, call)

    async def read(self, name: str, *, after: int = 0) -> AsyncGenerator[TopicMessage]:
        """Yield the stored messages with a larger `seq` than `after`, the oldest first. Raises NotFound if nothing was
        ever published."""
        call = Call("GET", path("topics", name), params={**self._team, "after": after})
        async for page in pages(self._connection, TopicMessages, call):
            for message in page.messages:
                yield message

    async def follow(self, name: str, *, after: int | None = None) -> AsyncGenerator[TeamEvent[TopicMessage]]:
        """Yield messages as they are published: those with a larger `seq` than `after`, or from now on. Does not end
        by itself."""
        call = Call("GET", path("topics", name), params=self._team, headers={"Accept": "text/event-stream"})
        last = None if after is None else str(after)
        async with aclosing(follow_team(self._connection, TopicMessage, call, last)) as events:
            async for event in events:
                yield event

    async def delete(self, name: str) -> None:
        """Delete a topic with its messages, as the operator. Raises NotFound."""
        await self._connection.send(Call("DELETE", path("topics", name), params=self._team))
