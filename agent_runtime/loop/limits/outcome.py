"""The ways in which a turn can end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from agent_common.protocol.chunks import FinishReason

Status = Literal["complete", "failed", "timeout", "cancelled"]
ERROR_STATUSES: tuple[Status, ...] = ("failed", "timeout")
UNPRICED = "unpriced_model"


@dataclass(frozen=True, slots=True)
class TurnOutcome:
    """The end of a turn (docs/protocols/task.md#how-it-ends)."""

    status: Status
    finish_reason: FinishReason | Literal["abort"]
    error_code: str | None = None
    error: str | None = None
    limit: str | None = None
    retry_after: float | None = None
    """Seconds to wait, as the model's provider asked."""

    @property
    def in_error(self) -> bool:
        """Whether the turn failed. The session's queue then pauses until the next message."""
        return self.status in ERROR_STATUSES

    def json(self) -> dict[str, Any]:
        return {name: value for name in self.__slots__ if (value := getattr(self, name)) is not None}


INTERNAL_FAILURE = TurnOutcome("failed", "error", "internal_error", "internal error in the runtime; see its log")
"""The outcome after a bug in the runtime."""


HOST_DEADLINE = TurnOutcome(
    "timeout", "other", "deadline_exceeded", "it has taken longer than the host allows", "deadline"
)
"""The outcome of a turn that the host has stopped at a deadline of its own."""


STORE_FAILURE = TurnOutcome(
    "failed", "error", "store_unavailable", "the database cannot be written: the disk is full or broken"
)
"""The outcome of a turn that could not be recorded on disk."""


class LimitReached(Exception):
    """Raised inside the loop to end the turn; carries the outcome."""

    def __init__(self, outcome: TurnOutcome) -> None:
        super().__init__(outcome.error)
        self.outcome = outcome
