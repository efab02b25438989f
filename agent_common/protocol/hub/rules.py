"""What an agent may do on the hub, and how much of it: set at registration, enforced by the hub."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, StringConstraints

from ..authority import matches
from ..base import Inbound
from .envelope import MAX_NUMBER, MAX_SECONDS
from .errors import ProtocolError

Overflow = Literal["reject", "drop_oldest", "drop_newest"]
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_TASK_SECONDS = 86400
_Glob = Annotated[str, StringConstraints(min_length=1, max_length=200)]
_Globs = Annotated[tuple[_Glob, ...], Field(strict=False, max_length=200)]


MAX_STARS = 4
"""Most `*` in one pattern of a new rule: each takes a while to prepare, and a rule has hundreds of patterns."""


def check_patterns(rule: Rule) -> None:
    """Raise ProtocolError for a rule whose patterns would cost too much."""
    parts = {"access": rule.access, "session_types": rule.session_types}
    for part, value in parts.items():
        for name, patterns in value:
            for at, pattern in enumerate(patterns):
                if pattern.count("*") > MAX_STARS:
                    raise ProtocolError(f"rule.{part}.{name}.{at}: a pattern has at most {MAX_STARS} stars")


def parse_duration(value: object) -> object:
    """Seconds of `90`, `"90"`, `"30s"`, `"15m"`, `"2h"` or `"1d"`; an empty text is 0. Raises ValueError."""
    if not isinstance(value, str):
        return value
    if not value:
        return 0
    found = re.fullmatch(r"(\d{1,9})([smhd]?)", value)
    if found is None:
        raise ValueError("must be seconds, or a number with s, m, h or d, such as 15m")
    return int(found[1]) * _SECONDS[found[2] or "s"]


Duration = Annotated[int, BeforeValidator(parse_duration), Field(ge=0, le=MAX_SECONDS)]


class Access(Inbound):
    """With whom it may talk, as patterns of names: `*` is any text."""

    inbound_from: _Globs = ("*",)
    """Names of agents that may invite it and send to it."""
    outbound_to: _Globs = ("*",)
    """Names of agents that it may invite."""


class SessionTypes(Inbound):
    """Types of sessions, as patterns."""

    initiate: _Globs = ("*",)
    """Types that it may open."""
    accept: _Globs = ("*",)
    """Types that it may be invited to."""


class Inbox(Inbound):
    """What may wait for it."""

    max_pending: int | None = Field(default=None, ge=1)
    """Most envelopes that are delivered to it or wait for it, and are not acknowledged; null: no limit."""
    overflow: Overflow = "reject"
    """What happens to one more: the sender gets InboxFull, the oldest that was not sent yet is dropped, or the new one
    is. What is dropped stays in the log."""
    in_flight: int = Field(default=64, ge=1, le=1000)
    """Most envelopes that are sent to it and not acknowledged, over all its sessions. The more urgent of those that
    wait is sent next."""


class Rate(Inbound):
    """How fast it may send."""

    per_minute: int = Field(ge=1, le=MAX_NUMBER)
    """Envelopes per minute in the long run."""
    burst: int = Field(default=1, ge=1, le=MAX_NUMBER)
    """Envelopes at once after a pause."""


class Rule(Inbound):
    """What an agent may do on the hub. The defaults allow everything, and bound depth and the time of tasks."""

    access: Access = Access()
    """With whom it may talk."""
    session_types: SessionTypes = SessionTypes()
    """In which types of sessions."""
    inbox: Inbox = Inbox()
    """What may wait for it."""
    rate: Rate | None = None
    """How fast it may send; null: without a limit."""
    max_concurrent_sessions: int | None = Field(default=None, ge=1)
    """Most open sessions that it has created; null: no limit."""
    session_ttl: Duration = 0
    """Seconds after which sessions that it opens expire, unless the call says otherwise; 0: never."""
    max_concurrent_tasks: int | None = Field(default=None, ge=1)
    """Most tasks of it that are not over; null: as many as the hub allows."""
    task_ttl: Duration = _TASK_SECONDS
    """Seconds after which its tasks expire, unless the call says otherwise; 0: never."""
    delegation_depth: int = Field(default=5, ge=0)
    """How deep a session that it opens may lie below others: 0 only outside of every turn."""


def allows(patterns: tuple[str, ...], name: str) -> bool:
    """Whether one of the patterns matches the name."""
    return any(pattern == "*" or matches(pattern, name) for pattern in patterns)
