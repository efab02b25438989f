"""Subscriptions in the database: made, listed and ended. Each call runs in the transaction of its caller."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, delete, func, insert, select

from agent_common.protocol import MAX_SUBSCRIPTIONS, Subscription

from ..database import topic_dead_letters, topic_messages, topic_subscriptions, topics
from ..errors import NotFound, TooMany

SUBSCRIPTIONS = topic_subscriptions.c
MESSAGES = topic_messages.c


@dataclass(frozen=True, slots=True)
class NewSubscription:
    """A subscription that is to be made."""

    id: str
    agent: str
    team: str
    session: str
    topic: str
    created_at: int
    """Epoch milliseconds."""


@dataclass(frozen=True, slots=True)
class SubscriptionQuery:
    """Which subscriptions to list, by id. None: of all."""

    agent: str | None
    team: str | None
    session: str | None
    topic: str | None
    after: str
    limit: int


def subscribe(connection: Connection, new: NewSubscription) -> bool:
    """Make a subscription to what is published from now on. Returns False if there is one already. One that the session
    has to this topic of another team, which its agent has left, is replaced. Raises TooMany."""
    mine = SUBSCRIPTIONS.agent == new.agent
    of_session = mine & (SUBSCRIPTIONS.session == new.session)
    found = connection.execute(
        select(SUBSCRIPTIONS.id, SUBSCRIPTIONS.team).where(of_session & (SUBSCRIPTIONS.topic == new.topic))
    ).first()
    if found is not None and found.team == new.team:
        return False
    if found is not None:
        connection.execute(delete(topic_subscriptions).where(SUBSCRIPTIONS.id == found.id))
    if (connection.execute(select(func.count()).where(mine)).scalar() or 0) >= MAX_SUBSCRIPTIONS:
        text = f"you have {MAX_SUBSCRIPTIONS} subscriptions; end one that is no longer needed"
        raise TooMany(text, code="too_many_subscriptions")
    newest = select(topics.c.newest).where((topics.c.team == new.team) & (topics.c.name == new.topic))
    position = connection.execute(newest).scalar() or 0
    used = connection.execute(select(func.max(SUBSCRIPTIONS.rate_until)).where(of_session)).scalar() or 0
    values: dict[str, Any] = {
        "id": new.id,
        "agent": new.agent,
        "team": new.team,
        "session": new.session,
        "topic": new.topic,
        "position": position,
        "handed": position,
        "dropped": 0,
        "attempts": 0,
        "lease_until": 0,
        "due_at": 0,
        "rate_until": used,
        "created_at": new.created_at,
    }
    connection.execute(insert(topic_subscriptions).values(values))
    return True


def of_others(row: Row[Any]) -> ColumnElement[bool]:
    """Return the condition of the messages that a subscription is still to get."""
    mine = (MESSAGES.team == row.team) & (MESSAGES.topic == row.topic)
    return mine & (MESSAGES.seq > row.position) & (MESSAGES.by != row.agent)


def waiting_messages() -> ColumnElement[bool]:
    """Return the condition of the same messages in a query over subscriptions."""
    mine = (MESSAGES.team == SUBSCRIPTIONS.team) & (MESSAGES.topic == SUBSCRIPTIONS.topic)
    return mine & (MESSAGES.seq > SUBSCRIPTIONS.position) & (MESSAGES.by != SUBSCRIPTIONS.agent)


def list_subscriptions(connection: Connection, query: SubscriptionQuery) -> tuple[list[Subscription], bool]:
    """Return a page, and whether there are more."""
    found = _chosen(query).where(SUBSCRIPTIONS.id > query.after).order_by(SUBSCRIPTIONS.id).limit(query.limit + 1)
    rows = connection.execute(found).all()
    return [Subscription.model_validate(row, from_attributes=True) for row in rows[: query.limit]], len(
        rows
    ) > query.limit


def find_subscription(connection: Connection, agent: str, session: str, topic: str) -> Subscription:
    """Return the one subscription of a session to a topic."""
    row = connection.execute(_chosen(SubscriptionQuery(agent, None, session, topic, "", 1))).one()
    return Subscription.model_validate(row, from_attributes=True)


def subscribed_sessions(connection: Connection, agent: str) -> list[tuple[str, str]]:
    """Return the ids of an agent's subscriptions, each with its session."""
    mine = select(SUBSCRIPTIONS.id, SUBSCRIPTIONS.session).where(SUBSCRIPTIONS.agent == agent)
    return [(one.id, one.session) for one in connection.execute(mine.order_by(SUBSCRIPTIONS.id)).all()]


def _chosen(query: SubscriptionQuery) -> Select[Any]:
    waiting = select(func.count()).select_from(topic_messages).where(waiting_messages())
    found = select(topic_subscriptions, waiting.scalar_subquery().label("waiting"))
    for column, value in (
        (SUBSCRIPTIONS.agent, query.agent),
        (SUBSCRIPTIONS.team, query.team),
        (SUBSCRIPTIONS.session, query.session),
        (SUBSCRIPTIONS.topic, query.topic),
    ):
        if value is not None:
            found = found.where(column == value)
    return found


def end_subscription(connection: Connection, subscription_id: str, agent: str | None) -> None:
    """End a subscription, of that agent or of any. Raises NotFound."""
    this = SUBSCRIPTIONS.id == subscription_id
    mine = this if agent is None else this & (SUBSCRIPTIONS.agent == agent)
    if not connection.execute(delete(topic_subscriptions).where(mine)).rowcount:
        raise NotFound(f"there is no subscription {subscription_id!r}; GET /subscriptions lists them")


def forget_agent(connection: Connection, agent: str) -> None:
    """End all subscriptions of an agent that is gone."""
    connection.execute(delete(topic_subscriptions).where(SUBSCRIPTIONS.agent == agent))


def list_dead_letters(
    connection: Connection, team: str | None, after: int, limit: int
) -> tuple[Sequence[Row[Any]], bool]:
    """Return dead letters after a number, the oldest first, and whether there are more."""
    table = topic_dead_letters
    found = select(table).where(table.c.id > after).order_by(table.c.id).limit(limit + 1)
    rows = connection.execute(found if team is None else found.where(table.c.team == team)).all()
    return rows[:limit], len(rows) > limit
