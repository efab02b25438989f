"""What it takes to share the database with other hubs: who runs, who delivers to whom, and what has changed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from sqlalchemy import Connection, and_, delete, exists, func, insert, null, or_, select, update
from sqlalchemy.dialects import postgresql

from ...database import HostDatabase, hub_agents, hub_changes, hub_cursors, hub_leases, hub_peers, hub_sessions
from ...errors import StartError
from .changes import DATABASE_MS, Change
from .doorbell import Doorbell
from .rows import AgentRow, CursorRow
from .shared_lock import bound_waits, lock_hubs
from .shared_writer import record_changes

MOST_PEERS = 256
_KEPT_MS = 600_000
"""For which changes are kept; who has not read them for as long has lost its leases long ago."""
_PRUNED_EVERY = 30
"""Signs of life between two looks for changes that are not kept any more."""
_PAGE = 1000


@dataclass(frozen=True, slots=True)
class Lease:
    """An answer to a hub that wants to deliver to an agent."""

    fence: int
    """Its number; 0: another hub has it."""
    is_new: bool = False
    """Whether another hub may have delivered since this one had it."""
    renewed_to: int = 0
    """If another hub has it: until when, unless it goes on renewing it."""


@dataclass(frozen=True, slots=True)
class Renewal:
    """What a hub has found when it has said that it runs."""

    slot: int
    position: int
    """The last change now."""
    ended: Sequence[str]
    """Hubs whose time was over; what they have left is now for this one to look after."""


class Sharing:
    """One hub among those of a database."""

    def __init__(self, database: HostDatabase) -> None:
        self._database = database
        self.peer_id = uuid4().hex
        self._renewals = 0

    def doorbell(self) -> Doorbell:
        """Something that rings when another hub has written."""
        return Doorbell(self._database, self.peer_id)

    # ---------------------------------------------------------------- who runs

    async def renew(self, lease_ms: int) -> Renewal:
        """Say that this hub runs for so long, and end those whose time is over."""
        return await self._database.run(lambda connection: self._renew(connection, lease_ms))

    def _renew(self, connection: Connection, lease_ms: int) -> Renewal:
        mine = hub_peers.c.peer_id == self.peer_id
        peers = hub_peers.c
        bound_waits(connection)
        known = connection.execute(select(peers.slot).where(mine)).scalar() is not None
        over = connection.execute(select(peers.peer_id).where(peers.expires_at < DATABASE_MS)).first() is not None
        ended: list[str] = []
        if over or not known:
            lock_hubs(connection)
            ended = self._end_others(connection)
        if self._renewals % _PRUNED_EVERY == 0:
            connection.execute(delete(hub_changes).where(hub_changes.c.at < DATABASE_MS - _KEPT_MS))
        self._renewals += 1
        renew = update(hub_peers).where(mine).values(expires_at=DATABASE_MS + lease_ms).returning(peers.slot)
        slot = connection.execute(renew).scalar()
        if slot is None:  # another hub has ended this one in between, or this is the first time
            lock_hubs(connection)
            slot = _free_slot(connection)
            new = {"peer_id": self.peer_id, "slot": slot, "expires_at": DATABASE_MS + lease_ms}
            connection.execute(insert(hub_peers).values(new))
        position = connection.execute(select(func.max(hub_changes.c.id))).scalar() or 0
        return Renewal(slot, position, ended)

    def _end_others(self, connection: Connection) -> list[str]:
        """Forget hubs whose time is over, and their leases."""
        peers = hub_peers.c
        leases = hub_leases.c
        over = and_(peers.expires_at < DATABASE_MS, peers.peer_id != self.peer_id)
        ended = list(connection.execute(delete(hub_peers).where(over).returning(peers.peer_id)).scalars())
        if ended:
            freed = update(hub_leases).where(leases.peer_id.in_(ended)).values(peer_id=null())
            found = connection.execute(freed.returning(leases.agent_id, leases.fence))
            record_changes(connection, self.peer_id, [Change("lease", agent, fence) for agent, fence in found])
        return ended

    async def leave(self) -> None:
        """Say that this hub ends, so that another one looks after what it has left."""
        mine = hub_peers.c.peer_id == self.peer_id
        await self._database.run(
            lambda connection: connection.execute(update(hub_peers).where(mine).values(expires_at=0))
        )

    # ---------------------------------------------------------------- leases

    async def take(self, agent_id: str, key_hash: str, *, supersede: bool) -> Lease:
        """Take the lease of an agent. Another hub that has it keeps it unless the key is that of the agent's last
        registration, or `supersede`."""
        return await self._database.run(lambda one: self._take(one, agent_id, key_hash, supersede=supersede))

    def _take(self, connection: Connection, agent_id: str, key_hash: str, *, supersede: bool) -> Lease:
        lock_hubs(connection)
        query = select(hub_leases, hub_peers.c.expires_at, DATABASE_MS.label("now")).select_from(
            hub_leases.outerjoin(hub_peers, hub_peers.c.peer_id == hub_leases.c.peer_id)
        )
        found = connection.execute(query.where(hub_leases.c.agent_id == agent_id)).first()
        fence = 1
        is_new = True
        if found is not None:
            is_mine = found.peer_id == self.peer_id
            until: int = found.expires_at or 0
            proven = supersede or (bool(key_hash) and found.key_hash == key_hash)
            if not is_mine and until >= found.now and not proven:
                return Lease(0, renewed_to=until)
            fence, is_new = (found.fence, False) if is_mine else (found.fence + 1, True)
        new = postgresql.insert(hub_leases).values(
            agent_id=agent_id, peer_id=self.peer_id, fence=fence, key_hash=key_hash
        )
        changed = {name: new.excluded[name] for name in ("peer_id", "fence", "key_hash")}
        connection.execute(new.on_conflict_do_update(index_elements=["agent_id"], set_=changed))
        record_changes(connection, self.peer_id, [Change("lease", agent_id, fence, self.peer_id)] if is_new else [])
        return Lease(fence, is_new)

    async def held_elsewhere(self) -> set[str]:
        """Ids of the agents that another hub delivers to."""
        query = select(hub_leases.c.agent_id).join(hub_peers, hub_peers.c.peer_id == hub_leases.c.peer_id)
        query = query.where(and_(hub_leases.c.peer_id != self.peer_id, hub_peers.c.expires_at >= DATABASE_MS))
        return await self._database.run(lambda connection: set(connection.execute(query).scalars()))

    # ---------------------------------------------------------------- what others have written

    async def changes(self, after: int) -> tuple[int, list[Change]]:
        """A page of changes after a number, and the number of its last one."""
        table = hub_changes.c
        query = (
            select(table.id, table.peer_id, table.kind, table.subject, table.number, table.detail)
            .where(table.id > after)
            .order_by(table.id)
            .limit(_PAGE)
        )

        def read(connection: Connection) -> list[Any]:
            bound_waits(connection)
            return list(connection.execute(query))

        found = await self._database.run(read)
        position = found[-1].id if found else after
        return position, [Change(*row[2:]) for row in found if row.peer_id != self.peer_id]

    async def held_sessions(self, session_ids: Collection[str], bounded: Collection[str]) -> list[str]:
        """Which of these sessions have something for agents that this hub delivers to, or for those named."""
        cursors = hub_cursors.c
        leases = hub_leases.c
        is_mine = exists().where(and_(leases.agent_id == cursors.agent_id, leases.peer_id == self.peer_id))
        query = select(cursors.session_id).distinct()
        query = query.where(
            and_(cursors.session_id.in_(list(session_ids)), ~cursors.done, or_(is_mine, cursors.agent_id.in_(bounded)))
        )
        return await self._database.run(lambda connection: list(connection.execute(query).scalars()))

    async def agent(self, name_or_id: str) -> AgentRow | None:
        """A registered agent."""
        table = hub_agents.c
        columns = [table[name] for name in AgentRow._fields]
        query = select(*columns).where(or_(table.agent_id == name_or_id, table.name == name_or_id))
        row = await self._database.run(lambda connection: connection.execute(query).first())
        return AgentRow(*row) if row is not None else None

    async def cursors(self, agent_id: str) -> list[CursorRow]:
        """How far an agent has come in the sessions in which something may be left for it."""
        table = hub_cursors.c
        query = select(*[table[name] for name in CursorRow._fields])
        query = query.where(and_(table.agent_id == agent_id, ~table.done))
        return await self._database.run(lambda connection: [CursorRow(*row) for row in connection.execute(query)])

    async def open_sizes(self, creator_id: str) -> dict[str, int]:
        """The open sessions of an agent, with the sizes of their snapshots."""
        is_open = and_(hub_sessions.c.creator_id == creator_id, hub_sessions.c.closed_at.is_(None))
        query = select(hub_sessions.c.session_id, func.length(hub_sessions.c.snapshot).label("size")).where(is_open)
        found = await self._database.run(lambda connection: connection.execute(query).all())
        return {one.session_id: one.size for one in found}


def _free_slot(connection: Connection) -> int:
    """The smallest number that no other hub has. Raises StartError if there are too many."""
    used = set(connection.execute(select(hub_peers.c.slot)).scalars())
    for slot in range(MOST_PEERS):
        if slot not in used:
            return slot
    raise StartError(f"MESH_DATABASE_URL: {MOST_PEERS} hubs share this database; stop some of them")
