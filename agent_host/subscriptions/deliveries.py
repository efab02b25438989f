"""Deliveries: what a session gets next, what comes again, and what its agent has said of it.

One delivery of a session is under way at a time, so that what is published meanwhile comes together. A delivery that is
not taken before its lease is over comes again: alone, later each time and with fewer messages, so that one message that
its agent cannot take holds up the others for a while only, and no other is lost with it.
"""

from __future__ import annotations

import heapq
import secrets
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, delete, func, insert, select, update

from agent_common.backoff import Backoff
from agent_common.protocol import (
    MAX_BACKLOG,
    MAX_DELIVERED,
    MAX_DELIVERED_BYTES,
    MAX_DELIVERIES,
    DeliveredMessage,
    DeliveryReceipt,
    TopicDelivery,
)

from ..database import topic_dead_letters, topic_messages, topic_subscriptions, topics
from .rows import MESSAGES, SUBSCRIPTIONS, of_others, waiting_messages

MAX_ATTEMPTS = 5
"""Deliveries of a message that is never taken, before it becomes a dead letter."""
LEASE_MS = 20_000
"""For how long a delivery is under way. An agent takes messages before it works on them, so this is long."""
BUSY_MS = 10_000
"""After this time an agent that took nothing is asked again."""
INTERVAL_MS = 60_000
BURST = 10
"""A session gets so many deliveries at once, and then one in this time."""
_PAUSES = Backoff(first=2.0, most=300.0)
_MOST_AHEAD_MS = LEASE_MS + round(_PAUSES.most * 1000)
_FREE_MS = INTERVAL_MS * (BURST - 1)
"""How far ahead a session may have used its pace and still get a delivery."""
_MOST_RATE_MS = INTERVAL_MS * (BURST + 1)
"""Times that are further ahead than these were set before the clock went back, and have passed."""
_ROWS_AT_ONCE = 4
"""A row may be large, and many topics are read side by side."""
_NO_RECEIPT = "the agent has not acknowledged it"


@dataclass(frozen=True, slots=True)
class Look:
    """What there is for an agent now."""

    due: bool
    topics: frozenset[str]
    """All that it has subscribed to in its team."""
    subscribed: bool
    """Whether it has a subscription, be it in a team that it has left and may come back to."""


def look(connection: Connection, agent: str, team: str, busy: Collection[str], now: int) -> Look:
    """Return whether a delivery is due, without making it."""
    mine = (SUBSCRIPTIONS.agent == agent) & (SUBSCRIPTIONS.team == team)
    of_agent = select(SUBSCRIPTIONS.team, SUBSCRIPTIONS.topic).where(SUBSCRIPTIONS.agent == agent)
    rows = connection.execute(of_agent).all()
    names = frozenset(row.topic for row in rows if row.team == team)
    waits = select(MESSAGES.seq).where(waiting_messages()).exists()
    later = SUBSCRIPTIONS.due_at.between(now + 1, now + _MOST_AHEAD_MS)
    leased = SUBSCRIPTIONS.lease_until.between(now + 1, now + _MOST_AHEAD_MS)
    too_fast = SUBSCRIPTIONS.rate_until.between(now + _FREE_MS + 1, now + _MOST_RATE_MS)
    free = ~later & ~leased & ~too_fast & ~SUBSCRIPTIONS.session.in_(busy)
    due = names and connection.execute(select(SUBSCRIPTIONS.id).where(mine & free & waits).limit(1)).first()
    return Look(bool(due), names, bool(rows))


def make_deliveries(
    connection: Connection, agent: str, team: str, busy: Collection[str], now: int
) -> list[TopicDelivery]:
    """Return what is due, and note that it is under way. Sessions that have waited longest come first."""
    mine = (SUBSCRIPTIONS.agent == agent) & (SUBSCRIPTIONS.team == team)
    rows = connection.execute(select(topic_subscriptions).where(mine).order_by(SUBSCRIPTIONS.session)).all()
    by_session = [list(of_session) for _, of_session in groupby(rows, lambda row: row.session)]
    found: list[TopicDelivery] = []
    for of_session in sorted(by_session, key=lambda one: max(row.due_at for row in one)):
        if of_session[0].session in busy or not _is_free(of_session, now):
            continue
        if (made := _make(connection, of_session, now)) is not None:
            found.append(made)
        if len(found) == MAX_DELIVERIES:
            break
    return found


def _is_free(of_session: Sequence[Row[Any]], now: int) -> bool:
    used = _used_until(of_session, now)
    return used <= now + _FREE_MS and not any(now < row.lease_until <= now + _MOST_AHEAD_MS for row in of_session)


def _used_until(of_session: Sequence[Row[Any]], now: int) -> int:
    """Return until when the session has used its pace."""
    return max((row.rate_until for row in of_session if row.rate_until <= now + _MOST_RATE_MS), default=now)


def _make(connection: Connection, of_session: Sequence[Row[Any]], now: int) -> TopicDelivery | None:
    due = [_prepared(connection, row, now) for row in of_session if not now < row.due_at <= now + _MOST_AHEAD_MS]
    again = [[row] for row in due if row.attempts]
    for rows in (*again, [row for row in due if not row.attempts]):
        if messages := _collect(connection, rows):
            return _hand_over(connection, rows, messages, now)
    return None


def _prepared(connection: Connection, row: Row[Any], now: int) -> Row[Any]:
    """Return the subscription without what it does not get any more: what too many that wait have pushed out, and what
    was delivered too often."""
    this = (topics.c.team == row.team) & (topics.c.name == row.topic)
    oldest = connection.execute(select(topics.c.oldest).where(this)).scalar() or 1
    pushed_out = select(MESSAGES.seq).where(of_others(row)).order_by(MESSAGES.seq.desc()).offset(MAX_BACKLOG).limit(1)
    last = connection.execute(pushed_out).scalar() or 0
    if (position := max(oldest - 1, last)) > row.position:
        still_there = select(func.count()).where(of_others(row) & (MESSAGES.seq <= position))
        count = max(0, oldest - 1 - row.position) + (connection.execute(still_there).scalar() or 0)
        return _changed(connection, row, position=position, dropped=row.dropped + count, attempts=0)
    return _bury(connection, row, now) if row.attempts >= MAX_ATTEMPTS else row


def _bury(connection: Connection, row: Row[Any], now: int) -> Row[Any]:
    """Make the next message a dead letter, and go on after it."""
    query = select(MESSAGES.seq, MESSAGES.id).where(of_others(row)).order_by(MESSAGES.seq).limit(1)
    head = connection.execute(query).first()
    if head is None:
        return _changed(connection, row, attempts=0)
    letter: dict[str, Any] = {
        "subscription_id": row.id,
        "agent": row.agent,
        "team": row.team,
        "session": row.session,
        "topic": row.topic,
        "seq": head.seq,
        "message_id": head.id,
        "reason": row.reason or _NO_RECEIPT,
        "attempts": row.attempts,
        "at": now,
    }
    connection.execute(insert(topic_dead_letters).values(letter))
    return _changed(connection, row, position=head.seq, attempts=0, reason=None)


def _collect(connection: Connection, rows: Sequence[Row[Any]]) -> list[DeliveredMessage]:
    """Return the next messages of some subscriptions: those of each topic in their order, the topics by time."""
    found: list[DeliveredMessage] = []
    size = 0
    for message in heapq.merge(*(_next_messages(connection, row) for row in rows), key=lambda one: one.at):
        size += len(message.data.encode())
        if found and (size > MAX_DELIVERED_BYTES or len(found) == MAX_DELIVERED):
            break
        found.append(message)
    return found


def _next_messages(connection: Connection, row: Row[Any]) -> Iterator[DeliveredMessage]:
    limit = max(1, MAX_DELIVERED >> 2 * row.attempts)
    query = select(topic_messages).where(of_others(row)).order_by(MESSAGES.seq).limit(limit)
    with connection.execute(query, execution_options={"yield_per": _ROWS_AT_ONCE}) as messages:
        for one in messages:
            yield DeliveredMessage(
                subscription_id=row.id,
                topic=row.topic,
                id=one.id,
                seq=one.seq,
                by=one.by,
                at=one.at,
                data=one.data,
            )


def _hand_over(
    connection: Connection, rows: Sequence[Row[Any]], messages: list[DeliveredMessage], now: int
) -> TopicDelivery:
    last = {one.subscription_id: one.seq for one in messages}
    until = now + LEASE_MS
    dropped: dict[str, int] = {}
    for row in rows:
        if row.id not in last:
            continue
        if row.dropped:
            dropped[row.topic] = row.dropped
        pause = round(_PAUSES.longest(row.attempts + 1) * 1000)
        more = {"attempts": row.attempts + 1, "lease_until": until, "due_at": until + pause, "reason": None}
        _changed(connection, row, handed=max(row.handed, last[row.id]), **more)
    used = max(now, _used_until(rows, now)) + INTERVAL_MS
    connection.execute(update(topic_subscriptions).where(_of_session(rows[0])).values(rate_until=used))
    session = rows[0].session
    return TopicDelivery(id=f"dlv_{secrets.token_hex(16)}", session=session, messages=messages, dropped=dropped)


def _of_session(row: Row[Any]) -> ColumnElement[bool]:
    return (SUBSCRIPTIONS.agent == row.agent) & (SUBSCRIPTIONS.session == row.session)


def note_receipt(connection: Connection, agent: str, receipt: DeliveryReceipt, now: int) -> None:
    """Note what an agent says of a delivery. Of a subscription that has ended it may say anything."""
    this = (SUBSCRIPTIONS.id == receipt.subscription_id) & (SUBSCRIPTIONS.agent == agent)
    row = connection.execute(select(topic_subscriptions).where(this)).first()
    if row is None:
        return
    match receipt.status:
        case "ended":
            connection.execute(delete(topic_subscriptions).where(this))
        case "taken" if (seq := min(receipt.seq, row.handed)) > row.position:
            _changed(connection, row, position=seq, dropped=0, attempts=0, reason=None, lease_until=0, due_at=now)
        case "busy" if row.lease_until > now:
            _changed(connection, row, attempts=max(0, row.attempts - 1), lease_until=0, due_at=now + BUSY_MS)
            _give_back(connection, row, now)
        case "refused" if row.lease_until > now:
            pause = round(_PAUSES.longest(row.attempts) * 1000)
            reason = receipt.reason.replace("\0", "\ufffd") or None  # not every database keeps a NUL
            refused = _changed(connection, row, reason=reason, lease_until=0, due_at=now + pause)
            if refused.attempts >= MAX_ATTEMPTS:
                _bury(connection, refused, now)
        case _:
            return


def _give_back(connection: Connection, row: Row[Any], now: int) -> None:
    """Take a delivery off the pace of its session once all of it is answered: what was not taken uses up nothing."""
    mine = _of_session(row)
    if connection.execute(select(SUBSCRIPTIONS.id).where(mine & (SUBSCRIPTIONS.lease_until > now)).limit(1)).first():
        return
    less = {"rate_until": SUBSCRIPTIONS.rate_until - INTERVAL_MS}
    connection.execute(update(topic_subscriptions).where(mine).values(less))


def _changed(connection: Connection, row: Row[Any], **values: Any) -> Row[Any]:
    """Change a subscription, and return it."""
    changed = update(topic_subscriptions).where(SUBSCRIPTIONS.id == row.id).values(values)
    return connection.execute(changed.returning(topic_subscriptions)).one()
