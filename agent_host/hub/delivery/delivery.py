"""Delivery: at least once until it is acknowledged, in order for each agent and session, sessions side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import TypeVar

import structlog

from agent_common.clock import Clock
from agent_common.owned_tasks import OwnedTasks
from agent_common.protocol.hub import (
    DEAD_LETTER,
    EV_EXPECTATION_VIOLATED,
    Envelope,
    ErrorFrame,
    NotifyFrame,
    is_protocol_event,
)

from ..agents import Agent
from ..audit import HubAudit
from ..limits import HubLimits
from ..live_session import LiveSession
from ..store import HubStore
from .inbox import Cursor, Endpoint, Inbox, is_small, is_too_old, without_content
from .inboxes import Inboxes
from .subscription import Subscription, Watch

log = structlog.get_logger(__name__)
Read = TypeVar("Read")
_AGAIN_SECONDS = 1.0
"""Seconds until what could not be read is read again."""


class Delivery:
    """Sends to each agent what is for it, as far as it is connected and keeps up."""

    def __init__(self, store: HubStore, clock: Clock, limits: HubLimits, audit: HubAudit, tasks: OwnedTasks) -> None:
        self._store = store
        self._clock = clock
        self._limits = limits
        self._audit = audit
        self._tasks = tasks
        self.inboxes = Inboxes(store, clock, audit)
        self._subscriptions: dict[str, list[Subscription]] = {}
        self.watches: list[Watch] = []
        self.on_done: Callable[[LiveSession], None] = _ignore
        """Called when an agent has nothing left to get of a session that is over."""
        self.may_deliver: Callable[[], bool] = _always
        """Whether this hub still has its leases."""

    # ---------------------------------------------------------------- what is new

    def dispatch(self, session: LiveSession, envelope: Envelope) -> None:
        """Deliver an envelope that has become durable."""
        is_removal = envelope.event_type == EV_EXPECTATION_VIOLATED and envelope.event_data.get("action") == "remove"
        for cursor in self.inboxes.cursors(session.session_id):
            if is_removal and cursor.is_removed:  # what waits for it is not delivered any more
                self.inboxes.forget_pending(cursor)
            self._offer(cursor, envelope)
        for subscription in tuple(self._subscriptions.get(session.session_id, ())):
            if not subscription.offer(envelope):  # it has fallen behind
                self._tasks.start(self._catch_up(session.session_id, subscription))
        for watch in self.watches:
            watch.offer(envelope)

    def _offer(self, cursor: Cursor, envelope: Envelope) -> None:
        inbox = cursor.inbox
        buffer = cursor.buffer
        if envelope.sequence == cursor.next and not buffer:
            if not self._is_due(cursor, envelope):
                self._skip(cursor, envelope)
                self.check_done(cursor)
            elif inbox.endpoint is not None:
                if cursor.retry is None and inbox.has_space and not inbox.ready and not inbox.behind:
                    self._send(cursor, envelope)
                    return
                if is_small(envelope) and inbox.may_load(cursor):
                    buffer.append(envelope)
                self.resume(cursor)
        elif buffer and buffer[-1].sequence == envelope.sequence - 1 and self._fits(cursor, envelope):
            buffer.append(envelope)
        else:
            self.resume(cursor)

    def _fits(self, cursor: Cursor, envelope: Envelope) -> bool:
        return len(cursor.buffer) < self._limits.page and is_small(envelope)

    def _is_due(self, cursor: Cursor, envelope: Envelope) -> bool:
        """Whether an envelope is to be sent: it is for the agent, was not dropped or done with, and is not too old."""
        if envelope.sequence in cursor.above:
            cursor.above.remove_through(envelope.sequence)
            return False
        if not cursor.is_for(envelope):
            return False
        if self.is_too_old(envelope):
            self.inboxes.uncount(cursor, envelope)
            self._record_expired(cursor, envelope)
            return False
        return True

    def is_too_old(self, envelope: Envelope) -> bool:
        """Whether an envelope is not to be delivered any more."""
        return is_too_old(envelope, self._clock.now_ms())

    def _record_expired(self, cursor: Cursor, envelope: Envelope) -> None:
        self._audit.record(
            "envelope_expired",
            agent_id=cursor.inbox.agent.agent_id,
            session_id=envelope.session_id,
            envelope_id=envelope.envelope_id,
        )

    # ---------------------------------------------------------------- what waits

    def resume(self, cursor: Cursor) -> None:
        """Go on with a cursor that may have something to send."""
        self._make_ready(cursor)
        self.pump(cursor.inbox)

    def _make_ready(self, cursor: Cursor) -> None:
        """Have the agent's next free place offered to a cursor, if it has something to send."""
        if cursor.is_ready or cursor.is_loading or cursor.retry is not None or cursor.inbox.endpoint is None:
            return
        inbox = cursor.inbox
        if cursor.buffer:
            inbox.push_ready(cursor)
        elif cursor.next > cursor.session.committed:
            inbox.loaded.discard(cursor)
            self._load_behind(inbox)
        elif inbox.may_load(cursor):
            self._start_loading(cursor)
        else:
            inbox.behind[cursor] = None

    def _start_loading(self, cursor: Cursor) -> None:
        cursor.is_loading = True
        self._tasks.start(self._load(cursor))

    def _load_behind(self, inbox: Inbox) -> None:
        """Let those read what they have that had to wait for others of their agent."""
        while (cursor := inbox.next_behind()) is not None:
            if not cursor.is_loading and cursor.retry is None and cursor.next <= cursor.session.committed:
                inbox.loaded.add(cursor)
                self._start_loading(cursor)

    def park(self, cursor: Cursor) -> None:
        """A cursor waits because of a nack: keep nothing of it in memory, so that others may read."""
        cursor.buffer.clear()
        cursor.is_ready = False
        cursor.inbox.loaded.discard(cursor)
        self._load_behind(cursor.inbox)

    async def _load(self, cursor: Cursor) -> None:
        """Read the next page of the log for a cursor."""
        session_id = cursor.session.session_id
        page = self._limits.page
        try:
            found = await _until_read(session_id, lambda: self._store.log(session_id, cursor.next - 1, page))
        finally:
            cursor.is_loading = False
        inbox = cursor.inbox
        if inbox.endpoint is None or cursor.retry is not None:
            inbox.loaded.discard(cursor)
            return
        if not inbox.may_load(cursor):
            inbox.behind[cursor] = None
            return
        if not found and cursor.next <= cursor.session.committed:
            cursor.next = cursor.session.committed + 1  # the log was deleted, because it ended long ago
            self._make_ready(cursor)
            self.check_done(cursor)
            return
        if not cursor.buffer and found and found[0].sequence == cursor.next:  # else it has begun again meanwhile
            cursor.buffer.extend(one for one in found if one.sequence <= cursor.session.committed)
        self.resume(cursor)

    def pump(self, inbox: Inbox) -> None:
        """Send what is ready, the most urgent first, as far as the agent's window allows."""
        while (cursor := inbox.pop_ready()) is not None:
            if cursor.is_ready:
                cursor.is_ready = False
                self._send_next(cursor)
                self._make_ready(cursor)

    def _send_next(self, cursor: Cursor) -> None:
        """Send the next envelope of a cursor's buffer that is due."""
        if cursor.retry is not None:
            return
        while cursor.buffer:
            envelope = cursor.buffer.popleft()
            if self._is_due(cursor, envelope):
                self._send(cursor, envelope)
                return
            self._skip(cursor, envelope)
        self.check_done(cursor)

    def _skip(self, cursor: Cursor, envelope: Envelope) -> None:
        """Go past an envelope that is not to be sent. Nobody acknowledges it, so the cursor is stored now and then: a
        restart must not read all of them again."""
        cursor.next = envelope.sequence + 1
        if cursor.next % self._limits.snapshot_every == 0:
            self.inboxes.save(cursor)

    def _send(self, cursor: Cursor, envelope: Envelope) -> None:
        name = envelope.envelope_id
        if cursor.attempts:
            cursor.nacks[name] = cursor.attempts
            cursor.attempts = 0
            cursor.carried = name
        cursor.next = envelope.sequence + 1
        if is_small(envelope):
            cursor.in_flight[name] = envelope
        else:
            cursor.in_flight[name] = without_content(envelope)
            cursor.stripped.add(name)
        cursor.inbox.in_flight += not is_protocol_event(envelope.event_type)
        self.notify(cursor, envelope)

    async def redeliver(self, cursor: Cursor, names: Collection[str]) -> None:
        """Send some of those again that were nacked, one after the other as the agent's link takes them: the log has
        the contents that are not in memory."""
        due = cursor.retry
        for name, known in tuple(cursor.in_flight.items()):
            if cursor.inbox.endpoint is not None:
                await cursor.inbox.endpoint.drained()
            if name not in names or name not in cursor.nacked:
                continue
            if self.is_too_old(known):
                self.expire(cursor, known)
                continue
            found = await self._whole(known) if name in cursor.stripped else [known]
            if cursor.retry is not due or cursor.in_flight.get(name) is not known:
                continue
            cursor.nacked.pop(name, None)
            for envelope in found:
                self.notify(cursor, envelope)

    async def _whole(self, known: Envelope) -> list[Envelope]:
        """Read an envelope with its content; none if it was deleted."""
        session_id = known.session_id
        before = known.sequence - 1
        return await _until_read(session_id, lambda: self._store.log(session_id, before, 1))

    def notify(self, cursor: Cursor, envelope: Envelope) -> None:
        """Send an envelope that is in flight."""
        inbox = cursor.inbox
        nacks = cursor.nacks.get(envelope.envelope_id, 0)
        was_broken_off = envelope.sequence <= cursor.sent_before and envelope.envelope_id != cursor.carried
        attempt = nacks + (2 if was_broken_off else 1)
        if inbox.endpoint is not None and self.may_deliver():
            inbox.endpoint.send(NotifyFrame(envelope=envelope, recipient_id=inbox.agent.agent_id, attempt=attempt))

    def expire(self, cursor: Cursor, envelope: Envelope) -> None:
        """A nacked envelope has become too old: it does not come again, and its agent is told so."""
        self._record_expired(cursor, envelope)
        if cursor.inbox.endpoint is not None:
            message = "it has become older than its ttl_seconds"
            name = envelope.envelope_id
            cursor.inbox.endpoint.send(ErrorFrame(code=DEAD_LETTER, message=message, envelope_id=name))
        self.finish(cursor, envelope)

    def finish(self, cursor: Cursor, envelope: Envelope) -> None:
        """An envelope in flight is done with; go on with what waits."""
        inbox = cursor.inbox
        name = envelope.envelope_id
        del cursor.in_flight[name]
        cursor.nacks.pop(name, None)
        cursor.nacked.pop(name, None)
        cursor.stripped.discard(name)
        if cursor.retry is not None and not cursor.nacked:
            cursor.retry.cancel()
            cursor.retry = None
        inbox.in_flight -= not is_protocol_event(envelope.event_type)
        self.inboxes.uncount(cursor, envelope)
        self.inboxes.save(cursor)
        if inbox.ready or cursor.next <= cursor.session.committed:
            self.resume(cursor)
        self.check_done(cursor)

    def check_done(self, cursor: Cursor) -> None:
        """Say so if the cursor's session is over and its agent has got everything."""
        if cursor.session.folded.info.is_over and cursor.is_done:
            self.inboxes.save(cursor)
            self.on_done(cursor.session)

    def count(self, session: LiveSession, envelope: Envelope) -> None:
        """Count an envelope that another hub has appended in the inboxes of its recipients, and drop what their rules
        want dropped, if this hub delivers to them."""
        for cursor in self.inboxes.cursors(session.session_id):
            if cursor.is_for(envelope) and envelope.sequence not in cursor.above:
                self.inboxes.count(cursor, envelope)
                if cursor.inbox.agent.is_held:
                    self.inboxes.trim(cursor.inbox)

    # ---------------------------------------------------------------- links and sessions

    def attach(self, agent: Agent, endpoint: Endpoint) -> None:
        """Send to an agent over a link from now on, from the first envelope that it has not acknowledged."""
        before = self.endpoint(agent)
        self.detach(agent)
        if before is not None and before is not endpoint:
            before.release(agent.agent_id)
        inbox = self.inboxes.of(agent)
        inbox.endpoint = endpoint
        for cursor in tuple(inbox.cursors.values()):
            self._make_ready(cursor)
        self.pump(inbox)

    def detach(self, agent: Agent) -> None:
        """Send nothing more to an agent until it is attached again."""
        inbox = self.inboxes.of(agent)
        inbox.endpoint = None
        inbox.ready.clear()
        inbox.behind.clear()
        inbox.loaded.clear()
        for cursor in inbox.cursors.values():
            cursor.start_over()
        inbox.in_flight = 0

    def endpoint(self, agent: Agent) -> Endpoint | None:
        """Where an agent is connected."""
        return self.inboxes.of(agent).endpoint

    def add(self, cursor: Cursor) -> None:
        """Deliver by a new cursor."""
        self.inboxes.add(cursor)
        self.resume(cursor)

    async def subscribe(self, session: LiveSession, subscription: Subscription) -> None:
        """Send what is in a session's log, and then what is appended."""
        self._subscriptions.setdefault(session.session_id, []).append(subscription)
        await self._catch_up(session.session_id, subscription)

    async def _catch_up(self, session_id: str, subscription: Subscription) -> None:
        await _until_read(session_id, lambda: subscription.catch_up(self._store, self._limits.page))

    def unsubscribe(self, session_id: str, subscription: Subscription) -> None:
        """Send nothing more to a subscription."""
        subscription.is_over = True
        watching = self._subscriptions.get(session_id, [])
        if subscription in watching:
            watching.remove(subscription)
        if not watching:
            self._subscriptions.pop(session_id, None)

    def is_watched(self, session_id: str) -> bool:
        """Whether there is a subscription to a session."""
        return session_id in self._subscriptions


async def _until_read(session_id: str, read: Callable[[], Awaitable[Read]]) -> Read:
    """Read from a session's log, again and again until that is possible: what waits for it must not wait for ever."""
    while True:
        try:
            return await read()
        except Exception as error:  # noqa: BLE001
            log.error("hub_session_unreadable", session=session_id, why=str(error))
            await asyncio.sleep(_AGAIN_SECONDS)


def _always() -> bool:
    return True


def _ignore(_session: LiveSession) -> None:
    return
