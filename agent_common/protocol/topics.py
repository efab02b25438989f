"""Topics: messages that the agents of a team publish, stored in their order (docs/reference/topics.md)."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from .base import Inbound, Peer
from .blackboard import Cause

MAX_MESSAGE_ID = 200


class Publish(Inbound):
    """Body of `POST /topics/{name}`."""

    id: str | None = Field(default=None, min_length=1, max_length=MAX_MESSAGE_ID)
    """The caller's own id of the message: the same again is published once. Null: one is made."""
    data: Any
    """Any JSON value."""


class Published(Peer):
    """A message that is stored."""

    id: str
    seq: int
    """Its number in the topic: 1, 2, 3, ..."""


class TopicMessage(Published):
    """A message of a topic."""

    data: Any
    by: str
    """The id of the agent that published it, or `operator`."""
    at: int
    """Epoch milliseconds."""
    cause: Cause


class TopicMessages(Peer):
    """A page of `GET /topics/{name}`, the oldest first."""

    messages: list[TopicMessage]
    next: int | None = Field(default=None, exclude_if=lambda value: value is None)
    """Pass it as `after` for the next page; absent if there are no more messages now."""
