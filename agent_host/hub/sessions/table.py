"""The sessions in memory; others are read when they are used."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any

import structlog

from agent_common.owned_tasks import OwnedTasks
from agent_common.protocol.hub import (
    FoldedSession,
    HubUnavailable,
    NetworkError,
    NotFoundError,
    ProtocolError,
    SessionType,
    fold,
    load_session,
)

from ..agents import Agent, Agents
from ..delivery import Cursor, Delivery
from ..live_session import LiveSession, read_fired
from ..store import CursorRow, HubStore, SessionRow, StoredSession

OnSession = Callable[[LiveSession | NetworkError], None]
_PAGE = 256
log = structlog.get_logger(__name__)


class SessionTable:
    """Reads sessions as a snapshot and the tail of their log, and drops those that are over."""

    def __init__(
        self,
        store: HubStore,
        agents: Agents,
        delivery: Delivery,
        tasks: OwnedTasks,
        types: Mapping[str, SessionType[Any]],
    ) -> None:
        self._store = store
        self._agents = agents
        self._delivery = delivery
        self._tasks = tasks
        self.types = types
        self.live: dict[str, LiveSession] = {}
        self._loading: dict[str, list[OnSession]] = {}
        self.on_loaded: Callable[[LiveSession], None] = _ignore
        """Called with each session that was read."""
        self.know_agents: Callable[[Collection[str]], Awaitable[None]] = _nothing
        """Makes agents known that another hub may have registered."""
        delivery.on_done = self.drop_if_done

    def use(self, session_id: str, on_session: OnSession) -> None:
        """Call back with a session, at once if it is in memory, or with why there is none."""
        session = self.live.get(session_id)
        if session is not None:
            on_session(session)
        elif (waiting := self._loading.get(session_id)) is not None:
            waiting.append(on_session)
        else:
            self._loading[session_id] = [on_session]
            self._tasks.start(self._load(session_id))

    async def get(self, session_id: str) -> LiveSession:
        """Return a session. Raises NetworkError."""
        session = self.live.get(session_id)
        if session is not None:
            return session
        found: asyncio.Future[LiveSession | NetworkError] = asyncio.get_running_loop().create_future()
        self.use(session_id, found.set_result)
        result = await asyncio.shield(found)
        if isinstance(result, NetworkError):
            raise result
        return result

    async def try_to_load(self, session_id: str) -> bool:
        """Have a session in memory. One that cannot be read is logged, because others must be. Returns False if another
        attempt may succeed."""
        if session_id not in self.live:
            try:
                await self.get(session_id)
            except NetworkError as error:
                log.error("hub_session_unreadable", session=session_id, why=error.message)
                return not isinstance(error, HubUnavailable)
        return True

    def add(self, session: LiveSession) -> None:
        """Keep a new session."""
        self.live[session.session_id] = session

    def drop_if_done(self, session: LiveSession) -> None:
        """Let go of a session that is over, once all agents that are connected, or whose inbox is bounded, have got
        everything. The others read it again when they come."""
        if session.uncommitted or session.is_loading or not session.folded.info.is_over:
            return
        inboxes = self._delivery.inboxes
        for cursor in inboxes.cursors(session.session_id):
            inbox = cursor.inbox
            bounded = inbox.agent.is_held and inbox.agent.rule.inbox.max_pending is not None
            waits = inbox.endpoint is not None or bounded
            if waits and not cursor.is_done:
                return
        if not self._delivery.is_watched(session.session_id):
            self.drop(session)

    def drop(self, session: LiveSession) -> None:
        """Let go of a session, and of how far its agents have come."""
        inboxes = self._delivery.inboxes
        if self.live.pop(session.session_id, None) is not None:
            inboxes.save_all()
            for cursor in inboxes.cursors(session.session_id):
                inboxes.remove(cursor)

    def replace_cursors(self, agent: Agent, rows: Iterable[CursorRow]) -> list[str]:
        """Deliver to an agent from where another hub has come to. Returns the sessions that are not in memory."""
        inboxes = self._delivery.inboxes
        for cursor in tuple(inboxes.of(agent).cursors.values()):
            inboxes.remove(cursor)
        missing: list[str] = []
        for row in rows:
            session = self.live.get(row.session_id)
            if session is not None:
                self._delivery.add(Cursor(inboxes.of(agent), session, row))
            else:
                missing.append(row.session_id)
        return missing

    async def read(self, session_id: str) -> tuple[SessionType[Any], StoredSession, FoldedSession]:
        """Read a session from its snapshot and the tail of its log. Raises NotFoundError."""
        self._delivery.inboxes.save_all()
        await self._store.flush()
        stored = await self._store.session(session_id)
        if stored is None:
            raise NotFoundError(f"there is no session {session_id}")
        session_type = self.types.get(stored.row.type)
        if session_type is None:
            raise ProtocolError(f"this hub does not know the type {stored.row.type}")
        folded = load_session(session_type, stored.row.snapshot)
        while page := await self._store.log(session_id, folded.sequence, _PAGE):
            for envelope in page:
                folded = fold(session_type, folded, envelope)
        return session_type, stored, folded

    async def _load(self, session_id: str) -> None:
        result: LiveSession | NetworkError
        try:
            session_type, stored, folded = await self.read(session_id)
            await self.know_agents([one.agent_id for one in stored.cursors])
            result = self._keep(session_type, stored.row, stored.cursors, folded)
        except NetworkError as error:
            result = error
        except Exception as error:
            self._finish(session_id, HubUnavailable(f"the session cannot be read: {error}", retry_after=1.0))
            raise
        self._finish(session_id, result)
        if isinstance(result, LiveSession):
            self.drop_if_done(result)  # one that was over when it was read has nothing that ends

    def _finish(self, session_id: str, result: LiveSession | NetworkError) -> None:
        for on_session in self._loading.pop(session_id):
            on_session(result)

    def _keep(
        self, session_type: SessionType[Any], row: SessionRow, cursors: Any, folded: FoldedSession
    ) -> LiveSession:
        session = LiveSession(session_type, folded, read_fired(row.fired))
        session.snapshot_sequence = row.snapshot_sequence
        self.live[session.session_id] = session
        rows: list[CursorRow] = list(cursors)
        for one in rows:
            agent = self._agents.find(one.agent_id)
            if agent is not None and not one.done:
                self._delivery.add(Cursor(self._delivery.inboxes.of(agent), session, one))
        self.on_loaded(session)
        return session


async def _nothing(_ids: Collection[str]) -> None:
    return


def _ignore(_session: LiveSession) -> None:
    return
