"""Follows what is said on a hub, for an operator."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncGenerator
from types import TracebackType
from typing import Self

from agent_common.hub_client import Connection, Link
from agent_common.protocol.hub import ALL_SESSIONS, Envelope, NotFoundError

_PAGE = 100
_REMEMBERED = 10_000


class HubWatcher:
    """An operator's link, which has no agents.

    async with HubWatcher(WebSocketLink("ws://127.0.0.1:8420/hub", token=operator_token)) as watcher:
        async for envelope in watcher.follow():
            print(await watcher.name(envelope.sender_id), envelope.text)
    """

    def __init__(self, link: Link, *, timeout: float = 30.0) -> None:
        """`timeout`: seconds that an answer may take."""
        self._connection = Connection(link.client(), timeout)
        self._names: OrderedDict[str, str] = OrderedDict()
        self._seen: OrderedDict[str, int] = OrderedDict()
        """The last sequence of each session that was yielded."""

    async def __aenter__(self) -> Self:
        await self._connection.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._connection.close()

    async def follow(self, session_id: str = ALL_SESSIONS, after: int = 0) -> AsyncGenerator[Envelope]:
        """Yield what is said: in all sessions from now on, or in one, first from its log after a sequence. What was
        said while the link was broken comes with the next envelope of its session. Raises NetworkError."""
        async with self._connection.subscribe(session_id, "", after) as events:
            while True:
                envelope = await events.get()
                async for missed in self._missed(envelope):
                    yield missed
                self._remember(envelope)
                yield envelope

    async def name(self, agent_id: str) -> str:
        """The name of an agent; its id if it is not registered any more."""
        if agent_id not in self._names:
            try:
                found = await self._connection.ask("get_agent", {"name": agent_id})
                self._names[agent_id] = found["passport"]["name"]
            except NotFoundError:
                return agent_id
            if len(self._names) > _REMEMBERED:
                self._names.popitem(last=False)
        return self._names[agent_id]

    async def _missed(self, envelope: Envelope) -> AsyncGenerator[Envelope]:
        """What was said in the session between the last envelope that has come and this one."""
        position = self._seen.get(envelope.session_id, envelope.sequence - 1)
        while position < envelope.sequence - 1:
            params = {"session_id": envelope.session_id, "after": position, "limit": _PAGE}
            page = await self._connection.ask("read_log", params)
            for one in map(Envelope.model_validate, page["envelopes"]):
                if one.sequence < envelope.sequence:
                    yield one
            position = page["next"] or envelope.sequence

    def _remember(self, envelope: Envelope) -> None:
        self._seen[envelope.session_id] = envelope.sequence
        self._seen.move_to_end(envelope.session_id)
        if len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)
