"""Takes in what other hubs have written."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import partial

from agent_common.protocol.hub import NetworkError

from ..agents import Agents
from ..delivery import Delivery
from ..leases import Leases
from ..live_session import LiveSession
from ..registry import Registry
from ..sessions import Posting, SessionTable
from ..store import Change, HubStore, Sharing

_REMEMBERED = 100_000


class Follower:
    """Brings sessions in memory, agents and leases up to date."""

    def __init__(
        self,
        *,
        store: HubStore,
        sharing: Sharing,
        agents: Agents,
        delivery: Delivery,
        table: SessionTable,
        posting: Posting,
        registry: Registry,
        leases: Leases,
    ) -> None:
        self._store = store
        self._sharing = sharing
        self._agents = agents
        self._delivery = delivery
        self._table = table
        self._posting = posting
        self._registry = registry
        self._leases = leases
        self._others: OrderedDict[str, None] = OrderedDict()
        """Sessions that this hub delivers nothing of."""
        leases.on_leased = self._others.clear

    async def take_in(self, changes: Sequence[Change]) -> None:
        """Take in a page of changes, in their order."""
        for change in changes:
            if change.kind == "agent":
                await self._registry.refresh(change.subject)
            elif change.kind == "lease":
                self._leases.moved(change.subject, change.number, is_held=bool(change.detail))
            elif change.kind == "fired" and (live := self._table.live.get(change.subject)) is not None:
                live.fired.add(change.detail)
        await self._take_in_sessions({one.subject: one.number for one in changes if one.kind == "session"})

    async def _take_in_sessions(self, sessions: Mapping[str, int]) -> None:
        unknown: dict[str, int] = {}
        for session_id, sequence in sessions.items():
            live = self._table.live.get(session_id)
            if live is not None:
                self._posting.follow(live, sequence)
            elif session_id not in self._others or self._delivery.watches:
                unknown[session_id] = sequence
        if unknown:
            await self._load(unknown)

    async def _load(self, sessions: dict[str, int]) -> None:
        """Read those of the sessions that have something for agents of this hub, and show the rest to who watches."""
        bounded = [one.agent_id for one in self._agents if one.rule.inbox.max_pending is not None]
        mine = set(await self._sharing.held_sessions(sessions, bounded))
        for session_id, sequence in sessions.items():
            if session_id in mine:
                self._table.use(session_id, partial(self._on_loaded, sequence))
                continue
            self._others[session_id] = None
            if len(self._others) > _REMEMBERED:
                self._others.popitem(last=False)
            if self._delivery.watches:
                for envelope in await self._store.log(session_id, sequence - 1, 1):
                    for watch in self._delivery.watches:
                        watch.offer(envelope)

    def _on_loaded(self, sequence: int, session: LiveSession | NetworkError) -> None:
        if isinstance(session, LiveSession):
            self._posting.follow(session, sequence)

    async def resync(self) -> None:
        """Bring everything up to date, after changes may have been missed."""
        self._others.clear()
        await self._registry.load()
        for session in tuple(self._table.live.values()):
            self._posting.follow(session, session.committed + 1)
