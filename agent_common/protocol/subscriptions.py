"""Subscriptions of agents to topics: what is published becomes turns of a session (docs/reference/subscriptions.md)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from .base import Inbound, Peer

MAX_SUBSCRIPTIONS = 32
"""Of one agent."""
MAX_BACKLOG = 1000
"""Messages that wait for one subscription; the oldest of more are dropped."""
MAX_DELIVERED = 50
"""Messages of one delivery."""
MAX_DELIVERED_BYTES = 64 * 1024
"""Of the data of one delivery; a larger message comes alone."""
MAX_DELIVERIES = 8
"""Deliveries of one answer, each for another session."""
MAX_RECEIVE_SECONDS = 30.0
_MOST_BUSY = 1000
SessionId = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[\x21-\x7e]+$")]
SubscriptionId = Annotated[str, StringConstraints(min_length=1, max_length=40, pattern=r"^[\x21-\x7e]+$")]


class Subscribe(Inbound):
    """Body of `POST /subscriptions`. The same again is the same subscription."""

    topic: str
    session: SessionId
    """The session of the agent in which the messages become turns."""


class Subscription(Peer):
    """A session of an agent that gets what others publish to a topic."""

    id: str
    agent: str
    team: str
    session: str
    topic: str
    position: int
    """The seq of the last message that it has, or does not get."""
    waiting: int
    """Messages that it is to get."""
    dropped: int
    """Messages that were dropped because too many waited, since it has last taken one."""
    attempts: int
    """Deliveries of its next message so far."""
    created_at: int
    """Epoch milliseconds."""


class SubscriptionList(Peer):
    """A page of `GET /subscriptions`, by id."""

    subscriptions: list[Subscription]
    next: str | None = Field(default=None, exclude_if=lambda value: value is None)
    """Pass it as `after` for the next page; absent on the last one."""


class TopicDeadLetter(Peer):
    """A message that an agent has not taken in so many deliveries. It does not get it any more."""

    id: int
    subscription_id: str
    agent: str
    team: str
    session: str
    topic: str
    seq: int
    """The message, while the topic keeps it."""
    message_id: str
    reason: str
    """Why, as the agent has said the last time."""
    attempts: int
    at: int
    """Epoch milliseconds."""


class TopicDeadLetters(Peer):
    """A page of `GET /subscriptions/dead-letters`, the oldest first."""

    dead_letters: list[TopicDeadLetter]
    next: int | None = Field(default=None, exclude_if=lambda value: value is None)
    """Pass it as `after` for the next page; absent on the last one."""


Receipt = Literal["taken", "busy", "refused", "ended"]
"""`taken`: the messages up to the seq are on the agent's disk; `busy`: it takes none now; `refused`: it cannot take
these; `ended`: its session is gone, and the subscription with it."""


class DeliveryReceipt(Inbound):
    """What an agent says of the messages of one subscription that were delivered."""

    subscription_id: SubscriptionId
    seq: int = Field(default=0, ge=0, lt=1 << 63)
    """Of the last message that it speaks of."""
    status: Receipt
    reason: str = Field(default="", max_length=500)
    """Why it is refused."""


class Receive(Inbound):
    """Body of `POST /subscriptions/deliveries`."""

    receipts: list[DeliveryReceipt] = Field(
        default_factory=list[DeliveryReceipt], max_length=MAX_DELIVERIES * MAX_SUBSCRIPTIONS
    )
    """For earlier deliveries."""
    busy_sessions: list[SessionId] = Field(default_factory=list[str], max_length=_MOST_BUSY)
    """Sessions that take nothing now."""
    wait_seconds: float = Field(default=0.0, ge=0, le=MAX_RECEIVE_SECONDS, allow_inf_nan=False, strict=False)
    """How long to wait for a message."""


class DeliveredMessage(Peer):
    """A message of a topic that was subscribed to."""

    subscription_id: str
    topic: str
    id: str
    seq: int
    by: str
    at: int
    """Epoch milliseconds."""
    data: str
    """JSON, as text."""


class TopicDelivery(Peer):
    """Messages for one session, in their order. What is not taken in time comes again."""

    id: str
    session: str
    messages: list[DeliveredMessage]
    dropped: dict[str, int]
    """Topic -> older messages that were dropped because too many waited."""


class SubscribedSession(Peer):
    """A subscription as its agent needs it."""

    id: str
    session: str


class TopicDeliveries(Peer):
    """Answer to `POST /subscriptions/deliveries`."""

    deliveries: list[TopicDelivery]
    subscriptions: list[SubscribedSession]
    """All of the agent."""
