"""Rules of a person for all their sessions with an agent: what `always` with the scope `agent` adds
(docs/reference/permissions.md#the-rules-of-a-person-for-an-agent).

They are kept under the id of the runtime, so that a copy of the data that runs as another agent has none of them.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from weakref import WeakValueDictionary

from pydantic import ValidationError

from agent_common.protocol import MAX_RULES, Rule

from ...errors import Conflict
from ...sessions import rows
from ...store import Database, Migration, Unit

Change = Callable[[Sequence[Rule]], Sequence[Rule]]
"""Returns the rules that take the place of the present ones. Raises what refuses the change."""
MAX_PAIRS = 50_000
"""Pairs of a principal and an agent that may have rules."""
_UNREADABLE = Rule(permission="*", action="deny", source="agent")
"""What an unreadable rule becomes, as it may have been a deny."""


def _create(connection: sqlite3.Connection) -> None:
    connection.execute(
        "CREATE TABLE agent_rules (runtime_id TEXT NOT NULL, principal TEXT NOT NULL, agent TEXT NOT NULL,"
        " rules_json TEXT NOT NULL, updated_at INTEGER NOT NULL, PRIMARY KEY (runtime_id, principal, agent))"
        " WITHOUT ROWID"
    )


MIGRATION = Migration(11, "rules of people for agents", _create)


@dataclass(slots=True, weakref_slot=True, eq=False)
class SharedRules:
    """The rules of one person for one agent as they are now, shared by all live sessions of both."""

    rules: Sequence[Rule] = ()


class AgentRules:
    """Keeps the rules of people for agents. In memory are the names of who has any, so that others cost a turn nothing,
    and the rules that a live session uses. Call `load` first."""

    def __init__(self, database: Database, runtime_id: str) -> None:
        self._database = database
        self._runtime_id = runtime_id
        self._shared: WeakValueDictionary[tuple[str, str], SharedRules] = WeakValueDictionary()
        self._kept: set[tuple[str, str]] = set()
        """The pairs of principal and agent that have rules."""
        self._lock = asyncio.Lock()
        """Held over a read or a write and what follows in memory, so that memory has what is on disk."""

    async def load(self) -> None:
        """Read who has rules. Raises StoreError."""
        query = "SELECT principal, agent FROM agent_rules WHERE runtime_id = ?"
        found = await self._database.read(lambda connection: connection.execute(query, (self._runtime_id,)).fetchall())
        self._kept = {(row["principal"], row["agent"]) for row in found}

    async def share(self, principal: str, agent: str) -> SharedRules:
        """Return the rules of a person for an agent. They change with each change while somebody holds them."""
        key = (principal, agent)
        if (known := self._shared.get(key)) is not None:
            return known
        if key not in self._kept:  # a change that is under way finds what is registered here
            known = self._shared[key] = SharedRules()
            return known
        async with self._lock:
            known = self._shared.get(key)
            if known is None:
                known = SharedRules((await self.of(principal, agent)).get(agent, ()))
                self._shared[key] = known
            return known

    async def of(self, principal: str, agent: str | None = None) -> Mapping[str, Sequence[Rule]]:
        """Return the rules of a person by agent, of all agents or of one."""
        return await self._database.read(lambda connection: self._read(connection, principal, agent))

    async def change(
        self, principal: str, agent: str, change: Change, now: int, also: Unit[None] | None = None
    ) -> Sequence[Rule]:
        """Change the rules of a person for an agent, with `also` in the same transaction, and return them. Cancelling
        the caller does not stop a write that is under way."""
        return await asyncio.shield(asyncio.create_task(self._change(principal, agent, change, now, also)))

    async def _change(
        self, principal: str, agent: str, change: Change, now: int, also: Unit[None] | None
    ) -> Sequence[Rule]:
        key = (principal, agent)

        def unit(connection: sqlite3.Connection) -> Sequence[Rule]:
            rules = tuple(change(self._read(connection, principal, agent).get(agent, ())))
            if rules and is_full:
                text = f"{MAX_PAIRS} users and agents have rules already; allow it once, or take rules of others back"
                raise Conflict(text, code="too_many_rules")
            self._write(connection, principal, agent, rules, now)
            if also is not None:
                also(connection)
            return rules

        async with self._lock:
            is_full = key not in self._kept and len(self._kept) >= MAX_PAIRS
            rules = await self._database.write(unit, durable=True)
            (self._kept.add if rules else self._kept.discard)(key)
            if (known := self._shared.get(key)) is not None:
                known.rules = rules
        return rules

    def _read(self, connection: sqlite3.Connection, principal: str, agent: str | None) -> Mapping[str, Sequence[Rule]]:
        found = connection.execute(
            "SELECT agent, rules_json FROM agent_rules"
            " WHERE runtime_id = ? AND principal = ? AND agent = ifnull(?, agent) ORDER BY agent",
            (self._runtime_id, principal, agent),
        )
        return {row["agent"]: tuple(_rule(rule) for rule in rows.load(row["rules_json"])) for row in found}

    def _write(
        self, connection: sqlite3.Connection, principal: str, agent: str, rules: Sequence[Rule], now: int
    ) -> None:
        key = (self._runtime_id, principal, agent)
        if not rules:
            connection.execute("DELETE FROM agent_rules WHERE (runtime_id, principal, agent) = (?, ?, ?)", key)
            return
        kept = rows.dump([rule.model_dump(exclude_none=True) for rule in rules])
        connection.execute("INSERT OR REPLACE INTO agent_rules VALUES (?, ?, ?, ?, ?)", (*key, kept, now))


def merge_rules(rules: Sequence[Rule], added: Sequence[Rule]) -> tuple[Rule, ...]:
    """Add rules to those of a session or of a person. A new one replaces an allow or ask rule for the same permission
    and pattern. Raises Conflict `too_many_rules`."""
    replaced = {(rule.permission, rule.pattern) for rule in added}
    kept = [one for one in rules if one.action == "deny" or (one.permission, one.pattern) not in replaced]
    if len(kept) + len(added) > MAX_RULES:
        text = f"there would be more than {MAX_RULES} rules; allow it once, or take some rules back"
        raise Conflict(text, code="too_many_rules")
    return (*kept, *added)


def _rule(kept: dict[str, object]) -> Rule:
    try:
        return Rule.model_validate({**kept, "source": "agent"})
    except ValidationError:
        return _UNREADABLE
