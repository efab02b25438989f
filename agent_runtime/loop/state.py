"""What a turn is: its limits, its outcome, and the one object that carries it from admission to its end."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from ..protocol import Usage
from ..protocol.chunks import FinishReason
from .conversations import Conversation
from .streams import LiveTurn

Status = Literal["complete", "failed", "timeout", "cancelled"]
StopReason = Literal["cancelled", "deadline", "shutdown"]
USUAL_OUTPUT = 8192
"""Tokens in one answer that nearly every model can give."""
Settling = Callable[[sqlite3.Connection, "Turn", int], None]
"""What else belongs into the transaction that starts or ends a turn; gets the time in epoch milliseconds."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a turn may use. Chat and task differ here and in the result contract, nowhere else."""

    steps: int
    seconds: float
    """Of running; time in the queue does not count."""
    tokens: int | None = None
    tokens_before: int = 0
    """Tokens that count against the budget though they were spent elsewhere."""
    cost_usd: float | None = None
    cost_before: float = 0.0
    max_output: int | None = None
    """Tokens the model gives at most in one answer, where known."""
    retries: int = 0
    """Further attempts after a transient model failure that the model client could not get over."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a turn ended (DESIGN.md 5, outcomes)."""

    status: Status
    finish_reason: FinishReason | Literal["abort"]
    error_code: str | None = None
    error: str | None = None
    limit: str | None = None

    def json(self) -> dict[str, Any]:
        fields = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in fields.items() if value is not None}


INTERNAL = Outcome("failed", "error", "internal_error", "the runtime failed; its log says more")
"""The outcome of a turn that met a bug of ours, or a disk that is gone."""


class LimitReached(Exception):
    """Leaves the loop from anywhere; carries the outcome."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.error)
        self.outcome = outcome


@dataclass(slots=True, eq=False)
class Turn:
    """One user message on its way to a finished reply."""

    conversation: Conversation
    message_id: str
    reply_id: str
    parts: list[dict[str, Any]]
    limits: Limits
    model: str
    session_name: str
    """The session as the caller named it; replies and streams use this name."""
    message_name: str
    task_id: str | None = None
    interactive: bool = False
    on_start: Settling | None = None
    on_end: Settling | None = None
    state: Literal["queued", "running", "settling", "ended"] = "queued"
    was_queued: bool = False
    """It could not start when it came."""
    admission: asyncio.Future[None] | None = None
    """The write that makes it durable."""
    durable: bool = False
    """Its admission is on disk."""
    interruptible: bool = False
    """The loop has begun. A turn that is stopped before that ends as soon as it begins, so that its end is settled."""
    stop_reason: StopReason | None = None
    outcome: Outcome | None = None
    usage: Usage = field(default_factory=Usage)
    steps: int = 0
    retries: int = 0
    retrying: str | None = None
    started_ms: int | None = None
    started_at: float | None = None
    duration_ms: int = 0
    reply: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """The recorded parts, once the turn has ended."""
    live: LiveTurn = field(default_factory=LiveTurn)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    runner: asyncio.Task[None] | None = None

    @property
    def could_start(self) -> bool:
        return self.state == "queued" and self.durable

    def names(self) -> dict[str, str]:
        """How this turn is called on the wire."""
        names = {"session_id": self.session_name, "message_id": self.message_name}
        return {**names, "task_id": self.task_id} if self.task_id else names

    def stop(self, reason: StopReason) -> None:
        """Cancels whatever the turn waits for. The first reason counts; a turn that is being settled goes on."""
        if self.state == "running" and self.stop_reason is None:
            self.stop_reason = reason
            if self.interruptible and self.runner is not None:
                self.runner.cancel()

    def check_budget(self, *, for_another_call: bool = False) -> None:
        """Raises LimitReached when the budget is overdrawn, or used up and another call is due."""
        limits = self.limits
        tokens = limits.tokens_before + self.usage.total
        if limits.tokens is not None and (tokens > limits.tokens or (for_another_call and tokens == limits.tokens)):
            raise LimitReached(_exhausted("tokens", f"{tokens} of {limits.tokens} tokens"))
        cost = limits.cost_before + (self.usage.cost_usd or 0.0)
        if limits.cost_usd is not None and (cost > limits.cost_usd or (for_another_call and cost >= limits.cost_usd)):
            raise LimitReached(_exhausted("cost", f"{cost:.6f} of {limits.cost_usd:g} US dollars"))

    def output_cap(self) -> int | None:
        """Tokens the next answer may have; none unless the budget leaves less than the model would give anyway."""
        limits = self.limits
        if limits.tokens is None:
            return None
        left = limits.tokens - limits.tokens_before - self.usage.total
        return left if left < (limits.max_output or USUAL_OUTPUT) else None


def _exhausted(limit: str, spent: str) -> Outcome:
    return Outcome("failed", "length", "budget_exhausted", f"the budget is used up: {spent}", limit)
