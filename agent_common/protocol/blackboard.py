"""The blackboard: what the agents of a team share as JSON values under keys (docs/reference/blackboard.md)."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from .base import Inbound, Peer

MAX_KEY = 512
"""Characters of a key."""
MAX_VALUE_BYTES = 256 * 1024
"""Bytes of a value as JSON."""
MAX_VALUE_LEVELS = 64
"""Levels of lists and objects in a value. Lists, deliveries and streams have it some levels deeper, and those who read
them take 100."""
MAX_TTL_SECONDS = 10 * 366 * 86_400.0
"""Longest life of an entry: ten years."""
MAX_LEASE_SECONDS = 86_400.0
TASK_HEADER = "x-agent-task"
TRACE_HEADER = "traceparent"
"""Headers of a write that name what has caused it."""
ChangeKind = Literal["put", "delete", "expire"]


class Cause(Peer):
    """What has caused a write, as its caller says."""

    session: str | None = Field(default=None, exclude_if=lambda value: value is None)
    task: str | None = Field(default=None, exclude_if=lambda value: value is None)
    trace: str | None = Field(default=None, exclude_if=lambda value: value is None)
    """The trace id of its `traceparent`."""


class PutEntry(Inbound):
    """Body of `PUT /blackboard/{key}`."""

    value: Any
    """Any JSON value, null included."""
    ttl: float | None = Field(default=None, gt=0, le=MAX_TTL_SECONDS, allow_inf_nan=False)
    """Seconds after which the entry expires; null: never."""


class Entry(Peer):
    """An entry of the blackboard."""

    key: str
    value: Any
    version: int
    """Grows by one with each write of the key."""
    updated_at: int
    """Epoch milliseconds."""
    updated_by: str
    """The id of the agent that wrote it, or `operator`."""
    cause: Cause
    expires_at: int | None = Field(default=None, exclude_if=lambda value: value is None)
    """Epoch milliseconds; absent if it never expires."""


class EntryList(Peer):
    """A page of `GET /blackboard`, by key."""

    entries: list[Entry]
    next: str | None = Field(default=None, exclude_if=lambda value: value is None)
    """Pass it as `after` for the next page; absent on the last one."""


class Change(Entry):
    """One write of a key: a line of its history, and an event of `GET /blackboard/watch`."""

    kind: ChangeKind
    """`delete` and `expire` have the value null."""


class ChangeList(Peer):
    """A page of `GET /blackboard/{key}/history`, the newest change first."""

    entries: list[Change]
    next: str | None = Field(default=None, exclude_if=lambda value: value is None)
    """Pass it as `after` for the next page; absent on the last one."""


class ClaimRequest(Inbound):
    """Body of `POST /blackboard/{key}/claim`."""

    lease_seconds: float = Field(gt=0, le=MAX_LEASE_SECONDS, allow_inf_nan=False)
    """Seconds after which the claim ends by itself."""


class Claim(Peer):
    """A claim that the caller holds."""

    claim_id: str
    """Stays the same while the claim is renewed."""
    expires_at: int
    """Epoch milliseconds."""
