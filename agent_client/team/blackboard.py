"""The blackboard of a team: JSON values under keys, in versions (docs/reference/blackboard.md)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from agent_common.protocol import Change, ChangeList, Claim, Entry, EntryList

from ..http import Call, Connection, pages, path
from .requests import TeamEvent, conditions, follow_team, team_params


class Blackboard:
    """The entries. A write is carried out only if the entry has the version `if_version`, or with `if_absent` if there
    is none; else it raises PreconditionFailed."""

    def __init__(self, connection: Connection, team: str | None) -> None:
        self._connection = connection
        self._team = team_params(team)

    async def list(self, prefix: str = "") -> AsyncGenerator[Entry]:
        """Yield the entries whose keys begin so, by key."""
        call = Call("GET", "/blackboard", params={**self._team, "prefix": prefix})
        async for page in pages(self._connection, EntryList, call):
            for entry in page.entries:
                yield entry

    async def get(self, key: str) -> Entry:
        """Read an entry. Raises NotFound."""
        return await self._connection.fetch(Entry, Call("GET", _route(key), params=self._team))

    async def put(
        self,
        key: str,
        value: Any,
        *,
        ttl: float | None = None,
        if_version: int | None = None,
        if_absent: bool = False,
    ) -> Entry:
        """Write any JSON value, which expires after `ttl` seconds. Raises PreconditionFailed, InvalidRequest."""
        body = {"value": value} | ({} if ttl is None else {"ttl": ttl})
        headers = conditions(if_version, if_absent)
        return await self._connection.fetch(
            Entry, Call("PUT", _route(key), json=body, params=self._team, headers=headers)
        )

    async def delete(self, key: str, *, if_version: int | None = None) -> None:
        """Delete an entry. Raises NotFound, PreconditionFailed."""
        call = Call("DELETE", _route(key), params=self._team, headers=conditions(if_version))
        await self._connection.send(call)

    async def history(self, key: str) -> AsyncGenerator[Change]:
        """Yield the changes of a key that are kept, the newest first. Raises NotFound."""
        call = Call("GET", f"{_route(key)}/history", params=self._team)
        async for page in pages(self._connection, ChangeList, call):
            for change in page.entries:
                yield change

    async def watch(self, prefix: str = "", *, after: str | None = None) -> AsyncGenerator[TeamEvent[Change]]:
        """Yield each change of the keys that begin so: those after the event with the id `after` (`0`: all that are
        kept), or from now on. Does not end by itself."""
        call = Call("GET", "/blackboard/watch", params={**self._team, "prefix": prefix})
        async with aclosing(follow_team(self._connection, Change, call, after)) as events:
            async for event in events:
                yield event

    async def claim(self, key: str, seconds: float) -> Claim:
        """Claim an entry for a while, or renew the claim. Raises Conflict while another has it, NotFound."""
        body = {"lease_seconds": seconds}
        call = Call("POST", f"{_route(key)}/claim", json=body, params=self._team, repeatable=True)
        return await self._connection.fetch(Claim, call)

    async def release(self, key: str) -> None:
        """End a claim. Raises Conflict if another agent has it."""
        await self._connection.send(Call("DELETE", f"{_route(key)}/claim", params=self._team, repeatable=True))


def _route(key: str) -> str:
    return path("blackboard", *key.split("/"))
