"""Results of tasks as callers see them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import to_json
from sqlalchemy import Row

from agent_common.protocol import TaskResult

from ..blackboard import PromotedValue

DeliveryState = Literal["pending", "delivered", "failed"]


class Delivery(BaseModel):
    """The callback of a result."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    id: str
    """The `X-Agent-Delivery` of all its attempts."""
    state: DeliveryState
    """`failed`: it was given up."""
    attempts: int
    next_at: int | None = None
    """Epoch milliseconds of the next attempt; null if there is none."""
    error: str | None = None
    """Why the last attempt failed."""


class Result(BaseModel):
    """The result of a task, given by the host or posted to the agent."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    workspace: str
    task_id: str
    user: str
    """The user whose task it was."""
    result: TaskResult
    truncated: bool = False
    """Whether the agent has left out fields that are too large for its channel; it has them at `GET /result`."""
    finished_at: int
    """Epoch milliseconds, by the agent's clock."""
    recorded_at: int
    """Epoch milliseconds, by the host's clock."""
    delivery: Delivery | None = Field(default=None)
    """Its callback; null if none was asked for."""
    promotions: list[PromotedValue] = Field(default=[], exclude_if=lambda found: not found)
    """What has become of the values that it promotes to the blackboard; absent if it promotes none."""


class ResultPage(BaseModel):
    """Answer to `GET /results`."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    results: list[Result]
    next: int | None = None
    """Pass it as `after` for the next page; null: there are no more."""


class AwaitedResult(BaseModel):
    """Answer to `GET /results` with `wait`, if the task has no result yet."""

    task_id: str
    workspace: str | None
    status: Literal["pending"] = "pending"


def render_result(row: Row[Any]) -> bytes:
    """Return a Result as JSON."""
    return b'%b,"delivery":%b}' % (render_body(row)[:-1], to_json(_delivery(row)))


def render_body(row: Row[Any]) -> bytes:
    """Return a Result without its delivery as JSON. What agents have written is joined as it is stored: parsed, it
    takes thirty times its bytes of memory."""
    head = to_json({"workspace": row.workspace, "task_id": row.task_id, "user": row.principal})
    tail = to_json({"truncated": row.truncated, "finished_at": row.finished_at, "recorded_at": row.recorded_at})
    promotions = b',"promotions":%b' % row.promotions.encode() if row.promotions else b""
    return b'%b,"result":%b,%b%b}' % (head[:-1], row.result.encode(), tail[1:-1], promotions)


def _delivery(row: Row[Any]) -> Delivery | None:
    if row.delivery is None:
        return None
    return Delivery(
        id=row.delivery,
        state=row.delivery_state,
        attempts=row.delivery_attempts,
        next_at=row.delivery_next_at,
        error=row.delivery_error,
    )
