"""What the hub does with sessions by itself: it opens and closes them, and acts on what is overdue."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import Any
from uuid import uuid4

from agent_common.backoff import Backoff
from agent_common.clock import Clock
from agent_common.protocol import same_json
from agent_common.protocol.hub import (
    EV_EXPECTATION_VIOLATED,
    EV_SESSION_CLOSED,
    EV_SESSION_EXPIRED,
    EV_SESSION_INVITE,
    EV_SESSION_OPENED,
    AccessDeniedError,
    HubUnavailable,
    NetworkError,
    Overdue,
    ProtocolError,
    RateLimited,
    SessionInfo,
    allows,
    begin,
    overdue_times,
    roles,
)

from ..agents import Agent, Agents
from ..audit import HubAudit
from ..deadlines import Deadlines
from ..delivery import Cursor, Delivery
from ..limits import HubLimits
from ..live_session import LiveSession, OnPosted, posted
from ..opened_sessions import session_bytes
from ..store import Conflict, HubStore, Row, Submission, TasksEnd, Violation
from .posting import Posting
from .table import SessionTable

_AGAIN_MS = 1000
"""Milliseconds until a write that failed is tried again."""
_UNREAD = Backoff(1.0, 60.0)
"""Pauses before a session that could not be read is tried again."""
_ATTEMPTS = 5
"""How often what an agent or an operator wants is appended, while other hubs append to the same session."""


@dataclass(frozen=True, slots=True)
class Opening:
    """What an agent wants to open."""

    type: str
    targets: tuple[str, ...]
    """Names or ids of those who are invited."""
    knobs: dict[str, Any] = field(default_factory=dict[str, Any])
    labels: dict[str, str] = field(default_factory=dict[str, str])
    ttl: float | None = None
    """Seconds after which it expires; None: as the creator's rule says."""
    key: str | None = None
    """The same key of the same creator opens one session."""


class Lifecycle:
    """Opens, closes and expires sessions."""

    def __init__(
        self,
        *,
        store: HubStore,
        clock: Clock,
        limits: HubLimits,
        agents: Agents,
        delivery: Delivery,
        table: SessionTable,
        posting: Posting,
        audit: HubAudit,
    ) -> None:
        self._store = store
        self._clock = clock
        self._agents = agents
        self._delivery = delivery
        self._table = table
        self._posting = posting
        self._audit = audit
        self._invite_ms = round(limits.invite_seconds * 1000)
        self._most_opened = limits.opened_bytes
        self.deadlines = Deadlines(clock, self._on_due)
        self._unread: dict[str, int] = {}
        """Sessions that cannot be read now, each with the attempts so far."""
        self.is_shared = False
        """Whether other hubs act on the same sessions: then what is overdue is claimed, so that one of them does."""
        posting.on_appended = self._follow_up
        table.on_loaded = self._on_loaded

    # ---------------------------------------------------------------- open and close

    def open(self, creator: Agent, opening: Opening, parent: SessionInfo | None) -> LiveSession:
        """Open a session and invite. It is open when all have acknowledged. Raises NetworkError."""
        session_type = self._table.types.get(opening.type)
        if session_type is None:
            raise ProtocolError(f"type: {opening.type} is none of {', '.join(sorted(self._table.types))}")
        targets = [self._agents.get(name) for name in opening.targets]
        _check_rules(creator, targets, opening.type)
        ancestors = _ancestors(creator, targets, parent)
        info = self._new_info(creator, targets, opening, session_type.version, ancestors)
        folded = begin(session_type, info)
        creator.require_space(info.session_id, session_bytes(session_type, folded), self._most_opened)
        return self._begin(LiveSession(session_type, folded, set()), [creator, *targets])

    async def find_opened(self, creator: Agent, opening: Opening) -> LiveSession | None:
        """The session that was opened with the same key before. Raises ProtocolError if it is another one."""
        session_id = _session_id(creator, opening)
        if opening.key is None:
            return None
        if session_id not in self._table.live:
            stored = await self._store.session(session_id)
            if stored is None and session_id not in self._table.live:  # nor was it opened meanwhile
                return None
        session = await self._table.get(session_id)
        info = session.folded.info
        targets = [self._agents.get(name).agent_id for name in opening.targets]
        opened = (info.type, [one.agent_id for one in info.participants[1:]], info.labels)
        if opened != (opening.type, targets, opening.labels) or not same_json(info.knobs, opening.knobs):
            raise ProtocolError("key: you have opened another session with it; use a new key")
        return session

    def _new_info(
        self, creator: Agent, targets: list[Agent], opening: Opening, version: int, ancestors: tuple[str, ...]
    ) -> SessionInfo:
        now = self._clock.now_ms()
        ttl = creator.rule.session_ttl if opening.ttl is None else opening.ttl
        return SessionInfo(
            session_id=_session_id(creator, opening),
            type=opening.type,
            version=version,
            creator_id=creator.agent_id,
            participants=roles(tuple((one.agent_id, one.name) for one in (creator, *targets))),
            created_at=now,
            expires_at=now + round(ttl * 1000) if ttl else None,
            knobs=opening.knobs,
            labels=opening.labels,
            ancestors=ancestors,
            pending_acks=tuple(one.agent_id for one in targets),
        )

    def _begin(self, session: LiveSession, members: list[Agent]) -> LiveSession:
        info = session.folded.info
        cursors = [Cursor(self._delivery.inboxes.of(one), session) for one in members]
        rows: list[Row] = [session.to_row(self._invite_ms), *(one.to_row() for one in cursors)]
        self._table.add(session)
        for cursor in cursors:
            self._delivery.add(cursor)
        self._posting.count(session)
        created = self._audit.note(
            "session_created", agent_id=info.creator_id, session_id=info.session_id, type=info.type,
            participants=[one.name for one in info.participants],
        )  # fmt: skip
        invitation = {
            "type": info.type,
            "version": info.version,
            "creator_id": info.creator_id,
            "knobs": info.knobs,
            "labels": info.labels,
        }
        for at, one in enumerate(info.pending_acks):  # the session is stored with the first, or nothing of it is
            also = [] if at else [*rows, created]
            self._posting.say(session, EV_SESSION_INVITE, (one,), invitation, also=also)
        return session

    async def close(self, session: LiveSession, reason: str, agent: Agent | None) -> None:
        """Close a session, and return once that is durable. `agent`: who asks; None: an operator.

        Raises AccessDeniedError, and HubUnavailable if it cannot be stored."""
        info = session.folded.info
        if agent is not None and agent.agent_id != info.creator_id:
            raise AccessDeniedError(f"only its creator or an operator closes the session {info.session_id}")
        await self._see_through(session, partial(self._end, session, reason))

    async def leave(self, agent: Agent, session: LiveSession) -> None:
        """Take an agent that is not registered any more out of a session, and return once that is durable.

        Raises HubUnavailable."""
        await self._see_through(session, partial(self._remove, session, agent))

    async def _see_through(self, session: LiveSession, say: Callable[[OnPosted], None]) -> None:
        """Say what the log does not ask for, so that nobody says it again if another hub has taken its place there."""
        for attempt in range(_ATTEMPTS):
            try:
                await posted(partial(self._unless_over, session, say))
                return
            except HubUnavailable:
                if attempt == _ATTEMPTS - 1:
                    raise

    def _unless_over(self, session: LiveSession, say: Callable[[OnPosted], None], on_posted: OnPosted) -> None:
        if session.is_loading:
            session.queue.append(partial(self._unless_over, session, say, on_posted))
        elif not session.folded.info.is_over:
            say(on_posted)
        else:
            _once_durable(session, on_posted)

    def _remove(self, session: LiveSession, agent: Agent, on_posted: OnPosted) -> None:
        info = session.folded.info
        if not info.has(agent.agent_id):  # it was removed before: the others go on
            _once_durable(session, on_posted)
        elif len(info.ids()) <= 2 or info.state == "pending":
            self._end(session, "participant_unregistered", on_posted)
        else:
            gone = {"expectation": "registered", "violators": [agent.agent_id], "action": "remove"}
            self._posting.say(session, EV_EXPECTATION_VIOLATED, None, gone, on_posted=on_posted)

    def _end(
        self,
        session: LiveSession,
        reason: str,
        on_posted: OnPosted | None = None,
        event_type: str = EV_SESSION_CLOSED,
    ) -> None:
        kind = "session_closed" if event_type == EV_SESSION_CLOSED else "session_expired"
        rows = self._ending(session, kind, reason)
        self._posting.say(session, event_type, None, {"reason": reason}, also=rows, on_posted=on_posted)

    def _ending(self, session: LiveSession, kind: str, reason: str) -> list[Row]:
        """The rows that are written with the last envelope of a session: its tasks end before it."""
        info = session.folded.info
        tasks = TasksEnd(f"its session has ended: {reason}", self._clock.now_ms(), session_id=session.session_id)
        note = self._audit.note(kind, agent_id=info.creator_id, session_id=info.session_id, reason=reason)
        return [tasks, note]

    # ---------------------------------------------------------------- what follows from the log

    def _on_loaded(self, session: LiveSession) -> None:
        self._posting.count(session)
        self._follow_up(session)

    def _follow_up(self, session: LiveSession) -> None:
        """Do what the log asks for. Also after a restart, so that a crash in between has no effect."""
        if session.is_loading:
            return
        info = session.folded.info
        if info.state == "pending":
            if info.rejected_by is not None:
                self._end(session, "invite_rejected")
            elif len(info.ids()) < 2:
                self._end(session, "invite_timeout")
            elif not info.pending_acks:
                self._posting.say(session, EV_SESSION_OPENED, None, {})
        elif info.state == "active":
            reason = session.type.end_reason(session.folded.state)
            if reason is None and len(info.ids()) < 2:
                reason = f"{info.type}_deserted"
            if reason is not None:
                self._end(session, reason)
        self._watch(session)

    def _watch(self, session: LiveSession) -> None:
        """See to it that the hub looks at the session when something is overdue. An earlier look does no harm, so that
        most appends need no new one."""
        if session.due_at is not None:
            earliest = self._clock.now_ms() + (session.shortest_ms or 0)
            if session.shortest_ms is None or session.due_at <= earliest:
                return
        due = session.next_due(self._invite_ms)
        if due is not None and (session.due_at is None or due < session.due_at):
            session.due_at = due
            self.deadlines.schedule(session.session_id, due)

    # ---------------------------------------------------------------- what is overdue

    async def load_open(self) -> None:
        """Look after all sessions that are open: read those whose log goes on after their snapshot, do in those in
        memory what their logs ask for, count the others, and remember when they are due."""
        for one in await self._store.open_sessions():
            live = self._table.live.get(one.session_id)
            creator = self._agents.find(one.creator_id)
            if live is not None:
                self._follow_up(live)
                continue
            if creator is not None:
                creator.opened.put(one.session_id, one.size)
            if one.has_tail:
                if not await self._table.try_to_load(one.session_id):
                    self._try_later(one.session_id)
            elif one.due_at is not None:
                self.deadlines.schedule(one.session_id, one.due_at)

    def _on_due(self, session_id: str) -> None:
        self._table.use(session_id, partial(self._on_read, session_id))

    def _on_read(self, session_id: str, result: LiveSession | NetworkError) -> None:
        if isinstance(result, LiveSession):
            self._unread.pop(session_id, None)
            self._check_due(result)
        elif isinstance(result, HubUnavailable):  # not now; any other is not there, or is of an unknown type
            self._try_later(session_id)

    def _try_later(self, session_id: str) -> None:
        attempts = self._unread[session_id] = self._unread.get(session_id, 0) + 1
        self.deadlines.schedule(session_id, self._clock.now_ms() + round(_UNREAD.pause(attempts) * 1000))

    def _check_due(self, session: LiveSession) -> None:
        if session.folded.info.is_over:
            return
        if session.is_loading:
            session.queue.append(lambda: self._check_due(session))
            return
        session.due_at = None
        info = session.folded.info
        now = self._clock.now_ms()
        if info.expires_at is not None and info.expires_at <= now:
            self._end(session, "ttl_expired", event_type=EV_SESSION_EXPIRED)
        else:
            for overdue in overdue_times(session.type, session.folded, session.expectations):
                if overdue.due_at <= now and overdue.key not in session.fired and not session.folded.info.is_over:
                    self._violated(session, overdue)
            if session.folded.info.state == "pending" and info.created_at + session.invite_ms(self._invite_ms) <= now:
                self._end(session, "invite_timeout")
        self._watch(session)

    def _violated(self, session: LiveSession, overdue: Overdue) -> None:
        expectation = session.expectations[overdue.index]
        action = expectation.on_violation
        session.add_fired(overdue.key)
        row = self._audit.note(
            "expectation_violated",
            agent_id=session.folded.info.creator_id,
            session_id=session.session_id,
            expectation=expectation.name,
            violators=overdue.violators,
            action=action,
        )
        rows: list[Row] = [row]
        if self.is_shared:
            rows.append(Violation(session.session_id, overdue.key, frozenset(session.fired)))
        elif session.uncommitted or action != "audit":
            session.snapshot_sequence = -1  # the next append takes the snapshot along
        else:
            rows.append(session.to_row(self._invite_ms))
        forget = partial(self._forget_violation, session, overdue.key)
        if action == "audit":
            self._store.submit(Submission(rows, forget if self.is_shared else None))
        elif action == "auto_close":
            reason = f"expectation:{expectation.name}"
            rows += self._ending(session, "session_closed", reason)
            self._posting.say(session, EV_SESSION_CLOSED, None, {"reason": reason}, also=rows, on_posted=forget)
        else:
            audience = overdue.violators if action == "warn" else None
            violation = {"expectation": expectation.name, "violators": list(overdue.violators), "action": action}
            self._posting.say(session, EV_EXPECTATION_VIOLATED, audience, violation, also=rows, on_posted=forget)

    def _forget_violation(self, session: LiveSession, key: str, result: object) -> None:
        """What could not be acted upon is due again, unless another hub has done it."""
        if not isinstance(result, Exception) or isinstance(result, Conflict):
            return
        session.fired.discard(key)
        if not session.is_loading:  # else it is looked at when it has been read
            session.due_at = self._clock.now_ms() + _AGAIN_MS
            self.deadlines.schedule(session.session_id, session.due_at)


def _once_durable(session: LiveSession, on_posted: OnPosted) -> None:
    """Call back once all is durable that is in the session."""
    if session.uncommitted:
        session.uncommitted[-1].then(on_posted)
    else:
        on_posted(session.folded.last_id)


def _session_id(creator: Agent, opening: Opening) -> str:
    if opening.key is None:
        return f"hs_{uuid4().hex}"
    return f"hs_{sha256(f'{creator.agent_id} {opening.key}'.encode()).hexdigest()[:32]}"


def _check_rules(creator: Agent, targets: list[Agent], session_type: str) -> None:
    rule = creator.rule
    if not allows(rule.session_types.initiate, session_type):
        raise AccessDeniedError(f"the rule of {creator.name} does not let it open a {session_type}")
    if rule.max_concurrent_sessions is not None and len(creator.opened) >= rule.max_concurrent_sessions:
        raise RateLimited(f"the rule of {creator.name} allows {rule.max_concurrent_sessions} open sessions")
    for target in targets:
        if not allows(rule.access.outbound_to, target.name):
            raise AccessDeniedError(f"the rule of {creator.name} does not let it invite {target.name}")
        if not target.accepts(creator):
            raise AccessDeniedError(f"the rule of {target.name} does not let {creator.name} invite it")
        if not allows(target.rule.session_types.accept, session_type):
            raise AccessDeniedError(f"the rule of {target.name} does not let it be invited to a {session_type}")


def _ancestors(creator: Agent, targets: list[Agent], parent: SessionInfo | None) -> tuple[str, ...]:
    """The creators of the sessions that the new one is opened within. Raises ProtocolError if one of them is invited,
    because it would wait for itself, and AccessDeniedError if there are more than the creator's rule allows."""
    if parent is None:
        return ()
    ancestors = (*parent.ancestors, parent.creator_id)
    for target in targets:
        if target.agent_id in ancestors:
            raise ProtocolError(f"target: {target.name} waits for this turn, and would wait for itself")
    if len(ancestors) > creator.rule.delegation_depth:
        raise AccessDeniedError(f"the rule of {creator.name} allows a depth of {creator.rule.delegation_depth}")
    return ancestors
