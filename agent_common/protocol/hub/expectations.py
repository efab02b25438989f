"""What a session expects of its participants, and when that is overdue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from ..base import Inbound
from .envelope import MAX_SECONDS
from .session import SessionInfo

ExpectationName = Literal["acks_within", "reply_within", "turn_within", "max_silence"]
Violation = Literal["audit", "notify_session", "warn", "hide", "remove", "auto_close"]


class Expectation(Inbound):
    """A time within which something must happen, and what the hub does if it does not."""

    name: ExpectationName
    """`acks_within`: all who are invited answer. `reply_within` and `turn_within`: the one whose turn it is sends.
    `max_silence`: somebody says something."""
    seconds: float = Field(gt=0, le=MAX_SECONDS)
    """How long it may take."""
    on_violation: Violation
    """`audit`: only recorded. `notify_session`: all are told; `warn`: those who are late. `hide`: their turn passes to
    the next. `remove`: they leave the session. `auto_close`: the session is closed. Each is recorded, too."""


@dataclass(frozen=True, slots=True)
class ExpectedTurn:
    """Whose turn it is."""

    agent_id: str
    triggering_envelope_id: str
    """The envelope that made it their turn; empty: the opening of the session."""
    since: int
    """Epoch milliseconds; 0: the opening of the session."""


@dataclass(frozen=True, slots=True)
class Overdue:
    """An expectation with its time."""

    index: int
    """Its place in the session's expectations."""
    due_at: int
    """Epoch milliseconds."""
    violators: tuple[str, ...]
    """Ids of those of whom it is expected."""

    @property
    def key(self) -> str:
        """Names this one occurrence, so that each is acted upon once."""
        return f"{self.index}:{self.due_at}"


def next_due(
    expectations: Sequence[Expectation], info: SessionInfo, turn: ExpectedTurn | None, opened_at: int, last_at: int
) -> list[Overdue]:
    """The times of all expectations that hold now. `last_at`: when anything was said last."""
    if info.is_over:
        return []
    found: list[Overdue] = []
    for index, expectation in enumerate(expectations):
        begun, violators = _begun(expectation.name, info, turn, opened_at, last_at)
        if violators:
            found.append(Overdue(index, begun + round(expectation.seconds * 1000), violators))
    return found


def _begun(
    name: ExpectationName, info: SessionInfo, turn: ExpectedTurn | None, opened_at: int, last_at: int
) -> tuple[int, tuple[str, ...]]:
    """Since when it is expected, and of whom; of nobody if it does not hold now."""
    if name == "acks_within":
        return info.created_at, info.pending_acks if info.state == "pending" else ()
    if info.state != "active":
        return 0, ()
    if name == "max_silence":
        return max(opened_at, last_at), info.ids()
    if turn is None:
        return 0, ()
    return turn.since or opened_at, (turn.agent_id,)
