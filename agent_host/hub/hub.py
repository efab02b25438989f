"""The hub: agents register, open sessions with each other, and get what is said in them.

    hub = await Hub.open("sqlite:///hub.db")

Nothing of an agent runs here; agents are at the other end of links.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Self
from weakref import WeakSet

from agent_common.clock import Clock, SystemClock
from agent_common.protocol.hub import SESSION_TYPES, Envelope, Frame, SessionType

from ..database import HostDatabase, open_database
from .limits import HubLimits
from .links import Flow, HubConnection, LinkRights
from .live_session import posted
from .parts import HubParts
from .store import HubStore, MemoryStore, SqlStore

MEMORY = "memory://"


class Hub(HubParts):
    """A hub. Close it, so that what waits is written."""

    _database: HostDatabase | None = None
    _connections: WeakSet[HubConnection]

    @classmethod
    async def open(
        cls,
        url: str = MEMORY,
        *,
        clock: Clock | None = None,
        limits: HubLimits | None = None,
        types: Mapping[str, SessionType[Any]] = SESSION_TYPES,
    ) -> Self:
        """Open a hub: `memory://` ends with the process, `sqlite:///FILE` and `postgresql+psycopg://...` are kept.

        Raises StartError if the database cannot be opened."""
        if url == MEMORY:
            return await cls.open_store(MemoryStore(), clock=clock, limits=limits, types=types)
        database = await asyncio.to_thread(open_database, url)
        hub = await cls.open_store(SqlStore(database), clock=clock, limits=limits, types=types)
        hub._database = database
        return hub

    @classmethod
    async def open_store(
        cls,
        store: HubStore,
        *,
        clock: Clock | None = None,
        limits: HubLimits | None = None,
        types: Mapping[str, SessionType[Any]] = SESSION_TYPES,
    ) -> Self:
        """Open a hub over a store, which it closes."""
        sharing = store.sharing if isinstance(store, SqlStore) else None
        hub = cls(store, await store.newest_id(), clock or SystemClock(), limits or HubLimits(), types, sharing)
        hub._connections = WeakSet()
        try:
            await hub._load()
        except BaseException:
            if hub.peers is not None:
                await hub.peers.leave()
            raise
        return hub

    async def _load(self) -> None:
        """Read what the hub must know at once: agents, sessions whose log goes on after their snapshot, and when the
        others and all tasks are due."""
        if self.peers is not None:
            await self.peers.join()
        await self.registry.load()
        await self.lifecycle.load_open()
        await self.tasks.load()
        if self.peers is not None:
            self.peers.start()

    @property
    def is_late(self) -> bool:
        """Whether it has not told the hubs of its database for too long that it lives, and so delivers nothing."""
        return self.peers is not None and not self.peers.holds()

    def connect(
        self,
        send: Callable[[Frame], None],
        rights: LinkRights | None = None,
        flow: Flow | None = None,
    ) -> HubConnection:
        """Take a link. `send` gets the frames for its client, and must not wait. `flow`: how much of what was sent
        still waits; None: that is not bounded."""
        connection = HubConnection(self, send, rights or LinkRights(), flow)
        self._connections.add(connection)
        return connection

    async def post(self, agent_id: str, envelope: Envelope) -> str:
        """Append an agent's envelope, and return its id once it is durable. Raises NetworkError."""
        return await posted(partial(self.posting.post, self.agents.get(agent_id), envelope))

    async def forget(self, name: str) -> None:
        """Take an agent off the hub whose name nobody may go on with. Nothing happens if there is none."""
        agent = await self.registry.find(name)
        if agent is not None:
            await self.registry.unregister(agent)

    async def close(self) -> None:
        """Write what waits, and let go of everything. Agents that are connected get nothing more."""
        self.lifecycle.deadlines.close()
        self.tasks.deadlines.close()
        for connection in tuple(self._connections):
            await connection.close()
        if self.peers is not None:
            await self.peers.stop()
        await self.owned_tasks.close()
        for agent in self.agents:
            self.delivery.detach(agent)
        self.delivery.inboxes.save_all()
        await self.store.close()
        if self.peers is not None:
            await self.peers.leave()
        if self._database is not None:
            self._database.close()
