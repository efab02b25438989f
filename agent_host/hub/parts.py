"""The parts of a hub, put together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_common.clock import Clock
from agent_common.owned_tasks import OwnedTasks
from agent_common.protocol.hub import SessionType

from .agents import Agents
from .audit import HubAudit
from .byte_quota import ByteQuota
from .delivery import Delivery, Receipts
from .envelope_ids import EnvelopeIds
from .leases import Leases
from .limits import HubLimits
from .peers import Follower, Peers
from .queries import Queries
from .registry import Registry
from .sessions import Lifecycle, Posting, SessionTable
from .store import HubStore, Sharing
from .tasks import Tasks, TaskWriter


class HubParts:
    """All parts of a hub over a store."""

    def __init__(
        self,
        store: HubStore,
        newest_id: str,
        clock: Clock,
        limits: HubLimits,
        types: Mapping[str, SessionType[Any]],
        sharing: Sharing | None = None,
    ) -> None:
        """`sharing`: if other hubs have the same store."""
        self.store = store
        self.clock = clock
        self.limits = limits
        self.owned_tasks = OwnedTasks()
        self.agents = Agents()
        self.quota = ByteQuota(clock)
        self.audit = HubAudit(store, clock)
        self.delivery = Delivery(store, clock, limits, self.audit, self.owned_tasks)
        self.receipts = Receipts(store, clock, limits, self.delivery, self.audit, self.owned_tasks)
        self.table = SessionTable(store, self.agents, self.delivery, self.owned_tasks, types)
        self.ids = EnvelopeIds(clock, newest_id)
        self.posting = Posting(
            store=store,
            clock=clock,
            limits=limits,
            agents=self.agents,
            delivery=self.delivery,
            table=self.table,
            ids=self.ids,
            tasks=self.owned_tasks,
        )
        self.lifecycle = Lifecycle(
            store=store,
            clock=clock,
            limits=limits,
            agents=self.agents,
            delivery=self.delivery,
            table=self.table,
            posting=self.posting,
            audit=self.audit,
        )
        self.leases = Leases(
            store=store,
            clock=clock,
            limits=limits,
            agents=self.agents,
            delivery=self.delivery,
            table=self.table,
            tasks=self.owned_tasks,
            sharing=sharing,
        )
        self.registry = Registry(
            store=store,
            clock=clock,
            limits=limits,
            agents=self.agents,
            delivery=self.delivery,
            table=self.table,
            lifecycle=self.lifecycle,
            audit=self.audit,
            tasks=self.owned_tasks,
            leases=self.leases,
            sharing=sharing,
        )
        if sharing is not None:
            self.table.know_agents = self.registry.know
            self.posting.recipients.on_full_elsewhere = self.leases.recount
            self.lifecycle.is_shared = True
        self.peers = self._peers(sharing) if sharing is not None else None
        self.queries = Queries(store, self.table, limits)
        self.tasks = Tasks(
            store=store,
            clock=clock,
            limits=limits,
            writer=TaskWriter(store, self.audit, self.table, self.posting),
            queries=self.queries,
            owned_tasks=self.owned_tasks,
        )

    def _peers(self, sharing: Sharing) -> Peers:
        follower = Follower(
            store=self.store,
            sharing=sharing,
            agents=self.agents,
            delivery=self.delivery,
            table=self.table,
            posting=self.posting,
            registry=self.registry,
            leases=self.leases,
        )
        peers = Peers(
            sharing=sharing,
            follower=follower,
            agents=self.agents,
            delivery=self.delivery,
            ids=self.ids,
            clock=self.clock,
            limits=self.limits,
        )
        peers.on_ended = self.look_after
        return peers

    async def look_after(self) -> None:
        """Look after the sessions and tasks that another hub has left."""
        await self.lifecycle.load_open()
        await self.tasks.load()
