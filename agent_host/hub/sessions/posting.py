"""The way of an envelope into the log: checked against the folded state, stamped, folded, written, then delivered.

What is checked and folded need not be durable yet, so that many envelopes of a session share a commit. Nothing is
delivered or confirmed before it is. If a write fails, or the log has got an envelope from elsewhere, the session is
read again and what was not written is checked anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import structlog

from agent_common.clock import Clock
from agent_common.protocol.hub import (
    HUB_ID,
    MAX_ENVELOPE,
    AccessDeniedError,
    Envelope,
    FoldedSession,
    HubUnavailable,
    InboxFull,
    NetworkError,
    ProtocolError,
    RateLimited,
    fold,
    is_protocol_event,
    validate,
)

from ..agents import Agent, Agents
from ..delivery import Cursor, Delivery, Inbox
from ..envelope_ids import EnvelopeIds
from ..limits import HubLimits
from ..live_session import DECIDING, LiveSession, OnPosted, Post, opening_bytes, read_fired
from ..owned_tasks import OwnedTasks
from ..store import Conflict, EnvelopeRow, HubStore, Row, Submission
from .table import SessionTable

log = structlog.get_logger(__name__)
_INBOX_RETRY = 1.0
_PAGE = 64
_MOST_QUEUED = 1000
"""Posts that wait while a session is read again."""


class Posting:
    """Appends to sessions."""

    def __init__(
        self,
        *,
        store: HubStore,
        clock: Clock,
        limits: HubLimits,
        agents: Agents,
        delivery: Delivery,
        table: SessionTable,
        ids: EnvelopeIds,
        tasks: OwnedTasks,
    ) -> None:
        self._store, self._clock, self._limits, self._agents = store, clock, limits, agents
        self._delivery, self._table, self._ids, self._tasks = delivery, table, ids, tasks
        self._invite_ms = round(limits.invite_seconds * 1000)
        self.on_appended: Callable[[LiveSession], None] = _ignore
        """Called after each append, and after a session was read again."""
        self.on_full_elsewhere: Callable[[Agent], None] = _ignore
        """Called when an inbox seems full to which another hub delivers: this one does not see what is acknowledged."""

    def post(self, sender: Agent, envelope: Envelope, on_posted: OnPosted) -> None:
        """Append an agent's envelope, and call back once it is durable, or with why it is refused."""
        envelope = envelope.model_copy(update={"sender_id": sender.agent_id})
        post = Post(envelope, on_posted)
        try:
            _check_columns(envelope)
        except ProtocolError as error:
            post.finish(error)
            return
        try:
            if sender.bucket is not None:
                sender.bucket.take()
        except RateLimited as error:
            session = self._table.live.get(envelope.session_id)
            if session is None or not _repeat(session, post):
                self._refuse(post, error)
            return
        self._table.use(envelope.session_id, partial(self._post, post))

    def _post(self, post: Post, session: LiveSession | NetworkError) -> None:
        if isinstance(session, NetworkError):
            post.finish(session)
        else:
            self.append(session, post)

    def say(
        self,
        session: LiveSession,
        event_type: str,
        audience: tuple[str, ...] | None,
        data: dict[str, Any],
        *,
        also: Sequence[Row] = (),
        on_posted: OnPosted | None = None,
    ) -> None:
        """Append an envelope of the hub's own. `also`: rows that are written with it or not at all."""
        envelope = Envelope(
            session_id=session.session_id,
            sender_id=HUB_ID,
            event_type=event_type,
            event_data=data,
            audience=audience,
        )
        self.append(session, Post(envelope, on_posted, also))

    def append(self, session: LiveSession, post: Post) -> None:
        """Append, or tell the post why not."""
        if session.is_loading:
            if len(session.queue) < _MOST_QUEUED:
                session.queue.append(partial(self.append, session, post))
            else:
                post.finish(HubUnavailable(retry_after=1.0))
            return
        if _repeat(session, post):
            return
        try:
            validate(session.type, session.folded, post.envelope)
            self._append(session, post)
        except NetworkError as error:
            self._refuse(post, error)

    def _refuse(self, post: Post, error: NetworkError) -> None:
        if post.envelope.idempotency_key is None:
            post.finish(error)
        else:  # it may be the repetition of one that was stored long ago
            self._tasks.start(self._finish_by_key(post, error))

    def _append(self, session: LiveSession, post: Post) -> None:
        before = session.folded
        envelope = post.envelope = post.envelope.model_copy(
            update={
                "sequence": before.sequence + 1,
                "envelope_id": self._ids.next_id(before.last_id),
                "created_at": self._clock.now_ms(),
            }
        )
        body = _body(envelope)
        dropped = self._count(session, post)
        session.folded = fold(session.type, before, envelope)
        row = EnvelopeRow(
            envelope.session_id,
            envelope.sequence,
            envelope.envelope_id,
            envelope.sender_id,
            envelope.idempotency_key,
            envelope.causation_id,
            body,
        )
        rows: list[Row] = [row, *post.also]
        if self._wants_snapshot(session, before):
            rows.append(session.to_row(self._invite_ms))
            session.snapshot_sequence = envelope.sequence
        post.size = len(body)
        session.remember_key(post)
        session.uncommitted.append(post)
        for cursor in dropped:
            self._delivery.inboxes.drop(cursor, envelope)
        post.submission = Submission(rows, partial(self._on_written, session, post))
        self._store.submit(post.submission)
        self.on_appended(session)

    def _wants_snapshot(self, session: LiveSession, before: FoldedSession) -> bool:
        state = session.folded.info.state
        if state != before.info.state:
            self._follow_creator(before, session.folded)
            return True
        behind = session.folded.sequence - session.snapshot_sequence
        return session.snapshot_sequence < 0 or behind >= self._limits.snapshot_every

    # ---------------------------------------------------------------- inboxes

    def _count(self, session: LiveSession, post: Post) -> list[Cursor]:
        """Count the envelope in the inboxes of its recipients. Returns those whose rule drops it.

        Raises InboxFull or AccessDeniedError, and then it is counted nowhere."""
        envelope = post.envelope
        if is_protocol_event(envelope.event_type):
            return []
        sender = self._agents.find(envelope.sender_id)
        inboxes = self._delivery.inboxes
        recipients = [cursor for cursor in inboxes.cursors(session.session_id) if cursor.is_for(envelope)]
        full: list[Cursor] = []
        for cursor in recipients:
            agent = cursor.inbox.agent
            if sender is not None and not agent.accepts(sender):
                raise AccessDeniedError(f"the rule of {agent.name} does not let {sender.name} send to it")
            most = agent.rule.inbox.max_pending if agent.is_held or agent.rule.inbox.overflow == "reject" else None
            if most is not None and cursor.inbox.pending >= most and envelope.sender_id != HUB_ID:
                full.append(cursor)
        dropped = [cursor for cursor in full if not self._has_space(cursor.inbox)]
        for cursor in recipients:
            inboxes.count(cursor, envelope)
        post.recipients = [cursor.inbox.agent.agent_id for cursor in recipients]
        return dropped

    def _has_space(self, inbox: Inbox) -> bool:
        """Make space in a full inbox, if its rule says how. Returns False if the new envelope is to be dropped."""
        rule = inbox.agent.rule.inbox
        if rule.overflow == "drop_newest":
            return False
        if rule.overflow == "drop_oldest" and self._delivery.inboxes.drop_oldest(inbox):
            return True
        if not inbox.agent.is_held:
            self.on_full_elsewhere(inbox.agent)
        raise InboxFull(
            f"{inbox.agent.name} has {inbox.pending} unacknowledged envelopes, and its rule allows {rule.max_pending}",
            retry_after=_INBOX_RETRY,
        )

    # ---------------------------------------------------------------- after the write

    def _on_written(self, session: LiveSession, post: Post, error: Exception | None) -> None:
        if error is not None:
            self._read_again(session, error)
            return
        session.uncommitted.popleft()
        session.committed = post.envelope.sequence
        post.finish(post.envelope.envelope_id)
        self._deliver(session, post.envelope)
        if session.known > session.committed:
            self.follow(session, session.known)

    def _deliver(self, session: LiveSession, envelope: Envelope) -> None:
        self._delivery.dispatch(session, envelope)
        if envelope.event_type in DECIDING:
            calls, session.on_decided = session.on_decided, []
            for call in calls:
                call()
            self._table.drop_if_done(session)

    def _read_again(self, session: LiveSession, error: Exception) -> None:
        posts = list(session.uncommitted)
        session.uncommitted.clear()
        session.keys.clear()
        session.keys_size = 0
        session.is_loading = True
        for post in posts:
            if post.submission is not None:
                post.submission.is_withdrawn = True
            self._delivery.inboxes.uncount_for(post.recipients, post.envelope)
        kept = [one for one in posts if isinstance(error, Conflict) and one.envelope.sender_id != HUB_ID]
        for post in posts:
            if post not in kept:
                post.finish(HubUnavailable("the hub cannot store this now", retry_after=1.0))
        self._tasks.start(self._reload(session, kept))

    async def _reload(self, session: LiveSession, posts: list[Post]) -> None:
        """Fold the session from its log, then append what was not written."""
        while True:
            try:
                _, stored, folded = await self._table.read(session.session_id)
                posts = [post for post in posts if not await self._finish_stored(post)]
                break
            except Exception as error:  # noqa: BLE001
                log.error("hub_session_unreadable", session=session.session_id, why=str(error))
                await asyncio.sleep(1.0)
        self._follow_creator(session.folded, folded)
        session.folded, session.snapshot_sequence = folded, stored.row.snapshot_sequence
        session.fired |= read_fired(stored.row.fired)
        await self._catch_up(session, posts)

    def follow(self, session: LiveSession, sequence: int) -> None:
        """The log goes on up to a sequence, by another hub: read it, and deliver what is new."""
        session.known = max(session.known, sequence)
        # What is on its way into the log meets the others there, and then the session is read again.
        if session.known > session.committed and not session.is_loading and not session.uncommitted:
            session.is_loading = True
            self._tasks.start(self._catch_up(session, []))

    async def _catch_up(self, session: LiveSession, posts: list[Post]) -> None:
        """Take what is new from the log, then append what waits. The session is loading until then."""
        while True:
            known = session.known
            try:
                page = await self._store.log(session.session_id, session.committed, _PAGE)
            except Exception as error:  # noqa: BLE001
                log.error("hub_session_unreadable", session=session.session_id, why=str(error))
                await asyncio.sleep(1.0)
                continue
            for envelope in page:
                self._take_in(session, envelope)
            if not page and session.known == known:
                session.known = session.committed  # the rest was deleted, because it ended long ago
                break
        session.is_loading = False
        queue = list(session.queue)
        session.queue.clear()
        for post in posts:
            self.append(session, post)
        self.on_appended(session)
        for call in queue:
            call()
        self._table.drop_if_done(session)
        self.follow(session, 0)

    def _take_in(self, session: LiveSession, envelope: Envelope) -> None:
        """Fold and deliver an envelope that this hub has not appended, as far as it knows."""
        before = session.folded
        if envelope.sequence > before.sequence:
            session.folded = fold(session.type, before, envelope)
            self._follow_creator(before, session.folded)
        session.committed = envelope.sequence
        session.known = max(session.known, session.committed)
        self._delivery.count(session, envelope)
        self._deliver(session, envelope)

    def _follow_creator(self, before: FoldedSession, after: FoldedSession) -> None:
        """Keep the number of open sessions of the creator, and their size."""
        creator = self._agents.find(before.info.creator_id)
        if creator is not None and before.info.is_over != after.info.is_over:
            change = before.info.is_over - after.info.is_over
            creator.created += change
            creator.opened_bytes = max(0, creator.opened_bytes + change * opening_bytes(after.info))

    async def _finish_stored(self, post: Post) -> bool:
        """Finish a post whose key is in the log. Returns False if it is not."""
        envelope = post.envelope
        if envelope.idempotency_key is None:
            return False
        known = await self._store.find_key(envelope.session_id, envelope.sender_id, envelope.idempotency_key)
        if known is None:
            return False
        post.finish(known.envelope_id if _is_same(known, envelope) else _other_content())
        return True

    async def _finish_by_key(self, post: Post, error: NetworkError) -> None:
        try:
            if await self._finish_stored(post):
                return
        except Exception as failure:  # noqa: BLE001
            log.error("hub_session_unreadable", session=post.envelope.session_id, why=str(failure))
            error = HubUnavailable(retry_after=1.0)
        post.finish(error)


def _check_columns(envelope: Envelope) -> None:
    """Raise ProtocolError if a database cannot keep what stands outside of the envelope's JSON."""
    for name in ("session_id", "idempotency_key", "causation_id"):
        if "\0" in (getattr(envelope, name) or ""):
            raise ProtocolError(f"{name}: may not contain the character NUL; leave it out")


def _body(envelope: Envelope) -> str:
    """The envelope as it is stored. Raises ProtocolError if it is too large, or is not JSON."""
    try:
        body = envelope.model_dump_json()
    except ValueError as error:
        raise ProtocolError(f"event_data: is not JSON: {error}") from error
    if (size := len(body.encode())) > MAX_ENVELOPE:
        raise ProtocolError(f"event_data: an envelope may have {MAX_ENVELOPE} bytes, and this one has {size}")
    return body


def _repeat(session: LiveSession, post: Post) -> bool:
    """Finish a post as the one before that has the same key. Returns False if none of the last ones has it."""
    known = session.keys.get((post.envelope.sender_id, post.envelope.idempotency_key or ""))
    if known is None:
        return False
    if not _is_same(known.envelope, post.envelope):
        post.finish(_other_content())
    else:
        known.then(post.finish)
    return True


def _is_same(one: Envelope, other: Envelope) -> bool:
    return (one.event_type, one.event_data, one.audience) == (other.event_type, other.event_data, other.audience)


def _other_content() -> ProtocolError:
    return ProtocolError("idempotency_key: another envelope of yours in this session has it")


def _ignore(_what: object) -> None:
    return
