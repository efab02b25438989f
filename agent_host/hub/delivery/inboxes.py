"""The inboxes of all agents: what is counted in them, what is dropped, and how far each agent has come, on disk."""

from __future__ import annotations

from agent_common.clock import Clock, ScheduledCall
from agent_common.protocol.hub import Envelope, is_protocol_event

from ..agents import Agent
from ..audit import HubAudit
from ..store import HubStore, Submission, fenced
from .inbox import Cursor, Inbox, is_too_old, without_content

_SAVE_SECONDS = 0.02
_LOOK_SECONDS = 1.0


class Inboxes:
    """Keeps an inbox for each agent, and the cursors of each session in memory."""

    def __init__(self, store: HubStore, clock: Clock, audit: HubAudit) -> None:
        self._store = store
        self._clock = clock
        self._audit = audit
        self._by_agent: dict[str, Inbox] = {}
        self._by_session: dict[str, dict[str, Cursor]] = {}
        self._dirty: dict[Cursor, None] = {}
        self._saving: ScheduledCall | None = None

    def of(self, agent: Agent) -> Inbox:
        """The inbox of an agent."""
        inbox = self._by_agent.get(agent.agent_id)
        if inbox is None:
            inbox = self._by_agent[agent.agent_id] = Inbox(agent)
        return inbox

    def cursors(self, session_id: str) -> tuple[Cursor, ...]:
        """The cursors of a session."""
        return tuple(self._by_session.get(session_id, {}).values())

    def add(self, cursor: Cursor) -> None:
        """Keep a new cursor."""
        session_id = cursor.session.session_id
        agent_id = cursor.inbox.agent.agent_id
        self._by_session.setdefault(session_id, {})[agent_id] = cursor
        cursor.inbox.cursors[session_id] = cursor

    def remove(self, cursor: Cursor) -> None:
        """Forget a cursor."""
        inbox = cursor.inbox
        session_id = cursor.session.session_id
        inbox.in_flight -= cursor.start_over()
        self.forget_pending(cursor)
        inbox.loaded.discard(cursor)
        inbox.behind.pop(cursor, None)
        self._dirty.pop(cursor, None)
        inbox.cursors.pop(session_id, None)
        of_session = self._by_session.get(session_id, {})
        of_session.pop(inbox.agent.agent_id, None)
        if not of_session:
            self._by_session.pop(session_id, None)

    def forget(self, agent: Agent) -> None:
        """Forget the inbox of an agent that is not registered any more."""
        inbox = self._by_agent.pop(agent.agent_id, None)
        for cursor in tuple(inbox.cursors.values()) if inbox is not None else ():
            self.remove(cursor)

    # ---------------------------------------------------------------- what is pending

    def count(self, cursor: Cursor, envelope: Envelope) -> None:
        """Count an envelope as pending, unless it is counted."""
        inbox = cursor.inbox
        is_bounded = inbox.agent.rule.inbox.max_pending is not None
        if is_protocol_event(envelope.event_type) or (is_bounded and envelope.envelope_id in inbox.waiting):
            return
        cursor.pending += 1
        inbox.pending += 1
        if is_bounded:
            inbox.waiting[envelope.envelope_id] = cursor, without_content(envelope)

    def uncount(self, cursor: Cursor, envelope: Envelope) -> None:
        """Do not count an envelope any more, if it is counted."""
        inbox = cursor.inbox
        was_waiting = inbox.waiting.pop(envelope.envelope_id, None) is not None
        is_counted = was_waiting or inbox.agent.rule.inbox.max_pending is None
        if is_counted and cursor.pending and not is_protocol_event(envelope.event_type):
            cursor.pending -= 1
            inbox.pending -= 1

    def forget_pending(self, cursor: Cursor) -> None:
        """Count nothing of a cursor any more."""
        inbox = cursor.inbox
        inbox.pending -= cursor.pending
        cursor.pending = 0
        for name in [name for name, (one, _) in inbox.waiting.items() if one is cursor]:
            del inbox.waiting[name]

    def forget_expired(self, inbox: Inbox) -> None:
        """Count nothing any more that has become too old before it was sent. Looks once a second at most, because all
        that waits is looked at."""
        now = self._clock.monotonic()
        if inbox.looked_at is not None and now < inbox.looked_at + _LOOK_SECONDS:
            return
        inbox.looked_at = now
        for cursor, envelope in tuple(inbox.waiting.values()):
            if envelope.envelope_id not in cursor.in_flight and is_too_old(envelope, self._clock.now_ms()):
                self.uncount(cursor, envelope)

    def uncount_for(self, agent_ids: list[str], envelope: Envelope) -> None:
        """Do not count an envelope that did not get into its log."""
        of_session = self._by_session.get(envelope.session_id, {})
        for agent_id in agent_ids:
            cursor = of_session.get(agent_id)
            if cursor is not None:
                self.uncount(cursor, envelope)

    def restore_number(self, agent_ids: list[str], envelope: Envelope) -> None:
        """Deliver what gets the number of an envelope that was dropped, and did not get into its log."""
        of_session = self._by_session.get(envelope.session_id, {})
        for agent_id in agent_ids:
            cursor = of_session.get(agent_id)
            if cursor is not None:
                cursor.above.remove(envelope.sequence)
                self.save(cursor)  # the number may be on disk

    def oldest(self, inbox: Inbox) -> tuple[Cursor, Envelope] | None:
        """The oldest envelope that was not sent yet."""
        waiting = inbox.waiting.values()
        return next((one for one in waiting if one[1].envelope_id not in one[0].in_flight), None)

    def drop_oldest(self, inbox: Inbox) -> bool:
        """Drop the oldest envelope that was not sent yet. Returns whether there was one."""
        found = self.oldest(inbox)
        if found is not None:
            self.drop(*found)
        return found is not None

    def displace(self, agent_ids: list[str], envelope: Envelope) -> None:
        """Drop the oldest of each inbox that an envelope has made too full."""
        of_session = self._by_session.get(envelope.session_id, {})
        for agent_id in agent_ids:
            cursor = of_session.get(agent_id)
            most = cursor.inbox.agent.rule.inbox.max_pending if cursor is not None else None
            if cursor is not None and most is not None and cursor.inbox.pending > most:
                self.drop_oldest(cursor.inbox)

    def trim(self, inbox: Inbox) -> None:
        """Drop what is too much in an inbox, if its rule says what to drop."""
        rule = inbox.agent.rule.inbox
        while rule.max_pending is not None and inbox.pending > rule.max_pending:
            if rule.overflow == "reject" or not self._drop_one(inbox, oldest=rule.overflow == "drop_oldest"):
                return

    def _drop_one(self, inbox: Inbox, *, oldest: bool) -> bool:
        if oldest:
            return self.drop_oldest(inbox)
        for cursor, envelope in reversed(inbox.waiting.values()):
            if envelope.envelope_id not in cursor.in_flight:
                self.drop(cursor, envelope)
                return True
        return False

    def drop(self, cursor: Cursor, envelope: Envelope) -> None:
        """Do not deliver an envelope that was not sent yet."""
        uncommitted = cursor.session.uncommitted
        index = envelope.sequence - cursor.session.committed - 1
        if 0 <= index < len(uncommitted) and envelope.sequence not in cursor.above:
            uncommitted[index].dropped.append(cursor.inbox.agent.agent_id)
        cursor.above.add(envelope.sequence)
        self.uncount(cursor, envelope)
        self.save(cursor)
        self._audit.record(
            "inbox_dropped",
            agent_id=cursor.inbox.agent.agent_id,
            session_id=envelope.session_id,
            envelope_id=envelope.envelope_id,
        )

    async def recount(self, agent: Agent, page: int) -> None:
        """Count what is pending from the logs of the agent's sessions in memory, while others send and it answers."""
        inbox = self.of(agent)
        for cursor in tuple(inbox.cursors.values()):
            await self._recount(cursor, page)
        inbox.waiting = dict(sorted(inbox.waiting.items()))  # the ids of all sessions rise with time

    async def _recount(self, cursor: Cursor, page: int) -> None:
        session = cursor.session
        after = cursor.acked_through
        self.forget_pending(cursor)
        for post in session.uncommitted:  # the log may not have them yet
            if cursor.is_for(post.envelope):
                self.count(cursor, post.envelope)
        while found := await self._store.log(session.session_id, after, page):
            if cursor.inbox.cursors.get(session.session_id) is not cursor:
                return
            after = found[-1].sequence
            for envelope in found:
                is_open = envelope.sequence >= cursor.next or envelope.envelope_id in cursor.in_flight
                if is_open and cursor.is_for(envelope) and envelope.sequence not in cursor.above:
                    self.count(cursor, envelope)

    # ---------------------------------------------------------------- on disk

    def save(self, cursor: Cursor) -> None:
        """Store a cursor soon. If the hub dies before, its agent gets again what it has acknowledged."""
        self._dirty[cursor] = None
        if self._saving is None:
            self._saving = self._clock.call_later(_SAVE_SECONDS, self.save_all)

    def save_all(self) -> None:
        """Store all cursors that have changed."""
        if self._saving is not None:
            self._saving.cancel()
            self._saving = None
        dirty = self._dirty
        self._dirty = {}
        if dirty:
            rows = [fenced(one.to_row(), one.inbox.agent.fence) for one in dirty if one.inbox.agent.is_held]
            self._store.submit(Submission(rows))
