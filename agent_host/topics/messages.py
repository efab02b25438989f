"""Write and read the messages of topics. The oldest of a topic go when newer ones need the room."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json, to_json  # noqa: TID251  what was read within limits before
from sqlalchemy import Connection, Row, Select, delete, func, insert, select, update
from sqlalchemy.dialects import postgresql

from agent_common.page_size import PageSize

from ..database import topic_messages, topic_subscriptions, topics
from ..errors import Conflict, NotFound, RequestError

_ROWS_AT_ONCE = 64
_ROW_BYTES = 200
"""What a message takes beside its data."""
_TRIMMED_AT_ONCE = 16
_HAS_MESSAGES = topics.c.oldest <= topics.c.newest
"""Not so of a topic that was deleted: its row keeps the numbers."""


@dataclass(frozen=True, slots=True)
class TopicLimits:
    """The bounds of a team's topics."""

    topics: int = 1000
    messages: int = 10_000
    """That are kept of one topic."""
    bytes: int = 16 << 20
    """Of the messages that are kept of one topic."""
    team_bytes: int = 1 << 30
    """Of the messages of all topics. Above it each topic keeps no more than an equal part of it."""


LIMITS = TopicLimits()


class TopicsFull(RequestError):
    """The team has too many topics; the operator may delete some."""

    status = 507
    code = "topics_full"


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message that is to be published."""

    team: str
    topic: str
    id: str
    data: str
    """JSON."""
    by: str
    cause: str
    """The JSON of a Cause."""
    at: int
    """Epoch milliseconds."""


@dataclass(frozen=True, slots=True)
class MessagePage:
    """Messages of a topic, the oldest first."""

    rows: list[Row[Any]]
    next: int | None


def publish(connection: Connection, message: NewMessage, limits: TopicLimits) -> tuple[int, bool]:
    """Store the message. Returns its seq, and whether it is new: the same message again has its old one.

    Runs in the transaction of a BatchWriter. Raises Conflict if its publisher has given the id to another message, and
    TopicsFull."""
    table = topic_messages
    mine = (table.c.team == message.team) & (table.c.topic == message.topic)
    known = connection.execute(
        select(table).where(mine & (table.c.by == message.by) & (table.c.id == message.id))
    ).first()
    if known is not None:
        if known.data != message.data and _without_order(known.data) != _without_order(message.data):
            text = f"id: {message.id!r} names another message of this topic already; take another id"
            raise Conflict(text, code="message_conflict")
        return known.seq, False
    _check_quota(connection, message, limits)
    size = len(message.data.encode()) + len(message.id) + len(message.cause) + _ROW_BYTES
    topic = _count(connection, message, size)
    values = {"seq": topic.newest, "id": message.id, "data": message.data, "size": size}
    more = {"by": message.by, "at": message.at, "cause": message.cause}
    connection.execute(insert(table).values(team=message.team, topic=message.topic, **values, **more))
    _trim(connection, topic, limits)
    _skip_own(connection, message, topic.newest)
    return topic.newest, True


def _without_order(text: str) -> str:
    """Return JSON that is the same for the same value, however the keys of its objects are ordered."""
    return json.dumps(from_json(text), sort_keys=True)


def _check_quota(connection: Connection, message: NewMessage, limits: TopicLimits) -> None:
    mine = (topics.c.team == message.team) & _HAS_MESSAGES
    if connection.execute(select(topics.c.name).where(mine & (topics.c.name == message.topic))).first() is not None:
        return
    if (connection.execute(select(func.count()).where(mine)).scalar() or 0) >= limits.topics:
        raise TopicsFull(f"the team {message.team!r} has {limits.topics} topics; use one of them, or have some deleted")


def _count(connection: Connection, message: NewMessage, size: int) -> Row[Any]:
    first = {"team": message.team, "name": message.topic, "newest": 1, "oldest": 1, "bytes": size}
    changed = (
        postgresql.insert(topics)  # SQLite spells it the same way
        .values(first)
        .on_conflict_do_update(
            index_elements=["team", "name"], set_={"newest": topics.c.newest + 1, "bytes": topics.c.bytes + size}
        )
        .returning(topics)
    )
    return connection.execute(changed).one()


def _trim(connection: Connection, topic: Row[Any], limits: TopicLimits) -> None:
    """Delete the oldest messages if there are too many."""
    most = _most_bytes(connection, topic, limits)
    if topic.newest - topic.oldest < limits.messages and topic.bytes <= most:
        return
    table = topic_messages
    mine = (table.c.team == topic.team) & (table.c.topic == topic.name)
    oldest = topic.oldest
    left = topic.bytes
    found = select(table.c.seq, table.c.size).where(mine).order_by(table.c.seq).limit(_TRIMMED_AT_ONCE)
    for seq, size in connection.execute(found).all():
        if seq == topic.newest or (topic.newest - oldest < limits.messages and left <= most):
            break
        oldest = seq + 1
        left = left - size
    connection.execute(delete(table).where(mine & (table.c.seq < oldest)))
    this = (topics.c.team == topic.team) & (topics.c.name == topic.name)
    connection.execute(update(topics).where(this).values(oldest=oldest, bytes=left))


def _most_bytes(connection: Connection, topic: Row[Any], limits: TopicLimits) -> int:
    """Return how much the topic may keep: less if all of its team keep too much."""
    part = limits.team_bytes // limits.topics
    if topic.bytes <= part:
        return limits.bytes
    query = select(func.sum(topics.c.bytes)).where(topics.c.team == topic.team)
    return part if (connection.execute(query).scalar() or 0) > limits.team_bytes else limits.bytes


def _skip_own(connection: Connection, message: NewMessage, seq: int) -> None:
    """Move subscriptions of the publisher that wait for nothing over its own message."""
    table = topic_subscriptions
    mine = (table.c.team == message.team) & (table.c.topic == message.topic) & (table.c.agent == message.by)
    connection.execute(update(table).where(mine & (table.c.position == seq - 1)).values(position=seq))


def delete_topic(connection: Connection, team: str, name: str) -> None:
    """Delete the topic with its messages, and end the subscriptions to it. Its numbers go on, so that those who watch
    it miss nothing of a later topic of that name. Raises NotFound."""
    this = (topics.c.team == team) & (topics.c.name == name) & _HAS_MESSAGES
    gone = connection.execute(update(topics).where(this).values(oldest=topics.c.newest + 1, bytes=0))
    if not gone.rowcount:
        raise NotFound(f"there is no topic {name!r}")
    for one in (topic_messages, topic_subscriptions):
        connection.execute(delete(one).where((one.c.team == team) & (one.c.topic == name)))


def read_messages(connection: Connection, team: str, name: str, after: int, limit: int) -> MessagePage:
    """Return messages after a seq, the oldest first. Raises NotFound if there is no such topic."""
    known = select(topics.c.name).where((topics.c.team == team) & (topics.c.name == name) & _HAS_MESSAGES)
    if connection.execute(known).first() is None:
        raise NotFound(f"there is no topic {name!r}")
    found: list[Row[Any]] = []
    size = PageSize()
    query = messages_after(team, name, after).limit(limit + 1)
    with connection.execute(query, execution_options={"yield_per": _ROWS_AT_ONCE}) as rows:
        for row in rows:
            if len(found) == limit or size.is_full:
                return MessagePage(found, found[-1].seq)
            found.append(row)
            size.add(row.data)
    return MessagePage(found, None)


def messages_after(team: str, name: str, after: int) -> Select[Any]:
    """Return the query of a topic's messages after a seq."""
    table = topic_messages
    mine = (table.c.team == team) & (table.c.topic == name)
    return select(table).where(mine & (table.c.seq > after)).order_by(table.c.seq)


def render_message(row: Row[Any]) -> bytes:
    """Return a TopicMessage as JSON, with the data as they are stored."""
    head = to_json({"id": row.id, "seq": row.seq})[:-1]
    tail = to_json({"by": row.by, "at": row.at})[1:]
    return b'%b,"data":%b,"cause":%b,%b' % (head, row.data.encode(), row.cause.encode(), tail)
