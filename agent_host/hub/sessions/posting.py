"""The way of an envelope into the log: checked against the folded state, stamped, folded, written, then delivered.

What is checked and folded need not be durable yet, so that many envelopes of a session share a commit. Nothing is
delivered or confirmed before it is. If a write fails, or the log has got an envelope from elsewhere, the session is
read again and what was not written is checked anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import structlog

from agent_common.clock import Clock
from agent_common.owned_tasks import OwnedTasks
from agent_common.protocol.hub import (
    HUB_ID,
    INVITE_ANSWERS,
    MAX_ENVELOPE,
    Envelope,
    FoldedSession,
    HubUnavailable,
    NetworkError,
    NotFoundError,
    ProtocolError,
    RateLimited,
    fold,
    validate,
)

from ..agents import Agent, Agents
from ..delivery import Delivery
from ..envelope_ids import EnvelopeIds
from ..limits import HubLimits
from ..live_session import DECIDING, NOT_STORED, LiveSession, OnPosted, Post, read_fired
from ..opened_sessions import session_bytes
from ..store import Conflict, EnvelopeRow, HubStore, Row, Submission
from .recipients import Recipients
from .repetitions import Repetitions, finish_as_before
from .table import SessionTable

log = structlog.get_logger(__name__)
Result = TypeVar("Result")
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
        self._store = store
        self._clock = clock
        self._limits = limits
        self._agents = agents
        self._delivery = delivery
        self._table = table
        self._ids = ids
        self._tasks = tasks
        self._repetitions = Repetitions(store, tasks)
        self.recipients = Recipients(agents, delivery.inboxes)
        self._invite_ms = round(limits.invite_seconds * 1000)
        self.on_appended: Callable[[LiveSession], None] = _ignore
        """Called after each append, and after a session was read again."""

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
            # An invitation waits for a short time only, and takes one answer: no rate is needed against many.
            if sender.bucket is not None and envelope.event_type not in INVITE_ANSWERS:
                sender.bucket.take()
        except RateLimited as error:
            session = self._table.live.get(envelope.session_id)
            if session is None or not finish_as_before(session, post):
                self._repetitions.refuse(post, error)
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
        if finish_as_before(session, post):
            return
        try:
            _by_type(session, partial(validate, session.type, session.folded, post.envelope))
            self._append(session, post)
        except NetworkError as error:
            self._repetitions.refuse(post, error)

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
        folded = _by_type(session, partial(fold, session.type, before, envelope))
        if has_new_variables := _variables(session, folded) is not _variables(session, before):
            self._require_space(session, folded)
        dropped = self.recipients.count(session, post)
        session.folded = folded
        if has_new_variables or folded.info.state != before.info.state:
            self.count(session)
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
        if session.folded.info.state != before.info.state:
            return True
        behind = session.folded.sequence - session.snapshot_sequence
        return session.snapshot_sequence < 0 or behind >= self._limits.snapshot_every

    # ---------------------------------------------------------------- after the write

    def _on_written(self, session: LiveSession, post: Post, error: Exception | None) -> None:
        if error is not None:
            self._read_again(session, error)
            return
        session.uncommitted.popleft()
        session.committed = post.envelope.sequence
        post.finish(post.envelope.envelope_id)
        self._delivery.inboxes.displace(post.displaces, post.envelope)
        self._deliver(session, post.envelope)
        if session.known > session.committed:
            self.follow(session, session.known)

    def _deliver(self, session: LiveSession, envelope: Envelope) -> None:
        self._delivery.dispatch(session, envelope)
        if envelope.event_type in DECIDING:
            calls = session.on_decided
            session.on_decided = []
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
            self._delivery.inboxes.restore_number(post.dropped, post.envelope)
            post.dropped = []
        kept = [one for one in posts if isinstance(error, Conflict) and one.envelope.sender_id != HUB_ID]
        for post in posts:
            if post not in kept:
                post.finish(HubUnavailable("the hub cannot store this now", retry_after=1.0))
        self._tasks.start(self._reload(session, kept))

    async def _reload(self, session: LiveSession, posts: list[Post]) -> None:
        """Fold the session from its log, then append what was not written."""
        failures = 0
        while True:
            try:
                _, stored, folded = await self._table.read(session.session_id)
                posts = [post for post in posts if not await self._repetitions.finish_stored(post)]
                break
            except NotFoundError:
                self._forget(session, posts)
                return
            except Exception as error:  # noqa: BLE001
                failures += 1
                await self._wait_to_reread(session, error, failures)
        session.folded = folded
        session.snapshot_sequence = stored.row.snapshot_sequence
        self.count(session)
        session.fired |= read_fired(stored.row.fired)
        await self._catch_up(session, posts)

    async def _wait_to_reread(self, session: LiveSession, error: Exception, failures: int) -> None:
        log.error("hub_session_unreadable", session=session.session_id, why=str(error), failures=failures)
        await asyncio.sleep(self._limits.reread.pause(failures))

    def _forget(self, session: LiveSession, posts: list[Post]) -> None:
        """A session whose opening could not be stored: leave no trace of it, and tell those who wait."""
        before = session.folded
        session.folded = replace(before, info=replace(before.info, state="closed", close_reason=NOT_STORED))
        self.count(session)
        session.is_loading = False
        self._table.drop(session)
        for post in posts:
            post.finish(HubUnavailable("the hub cannot store this now", retry_after=1.0))
        waiting = [*session.queue, *session.on_decided]
        session.queue.clear()
        session.on_decided.clear()
        for call in waiting:
            call()

    def follow(self, session: LiveSession, sequence: int) -> None:
        """The log goes on up to a sequence, by another hub: read it, and deliver what is new."""
        session.known = max(session.known, sequence)
        # What is on its way into the log meets the others there, and then the session is read again.
        if session.known > session.committed and not session.is_loading and not session.uncommitted:
            session.is_loading = True
            self._tasks.start(self._catch_up(session, []))

    async def _catch_up(self, session: LiveSession, posts: list[Post]) -> None:
        """Take what is new from the log, then append what waits. The session is loading until then."""
        failures = 0
        while True:
            known = session.known
            try:
                page = await self._store.log(session.session_id, session.committed, _PAGE)
            except Exception as error:  # noqa: BLE001
                failures += 1
                await self._wait_to_reread(session, error, failures)
                continue
            failures = 0
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
            self.count(session)
        session.committed = envelope.sequence
        session.known = max(session.known, session.committed)
        self._delivery.count(session, envelope)
        self._deliver(session, envelope)

    def count(self, session: LiveSession) -> None:
        """Count a session among the open ones of its creator, as it is now."""
        creator = self._agents.find(session.folded.info.creator_id)
        if creator is None:
            return
        if session.folded.info.is_over:
            creator.opened.remove(session.session_id)
        else:
            creator.opened.put(session.session_id, session_bytes(session.type, session.folded))

    def _require_space(self, session: LiveSession, folded: FoldedSession) -> None:
        """Raise RateLimited if the variables exceed the share of the session's creator, who need not have set them."""
        creator = self._agents.find(folded.info.creator_id)
        if creator is not None:
            size = session_bytes(session.type, folded)
            creator.require_space(session.session_id, size, self._limits.opened_bytes)


def _variables(session: LiveSession, folded: FoldedSession) -> Mapping[str, Any]:
    return session.type.variables(folded.state)


def _by_type(session: LiveSession, call: Callable[[], Result]) -> Result:
    """What the session's type makes of an envelope. Raises NetworkError, also if the type fails at it."""
    try:
        return call()
    except NetworkError:
        raise
    except Exception as error:
        log.exception("hub_type_failed", session=session.session_id, type=session.type.name)
        raise NetworkError("the session's type cannot take this") from error


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


def _ignore(_what: object) -> None:
    return
