"""Results of tasks as callers see them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from agent_common.protocol import TaskResult

from ..blackboard import PromotedValue

_PROMOTIONS = TypeAdapter(list[PromotedValue])
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


def result_from_row(row: Mapping[Any, Any]) -> Result:
    return Result(
        workspace=row["workspace"],
        task_id=row["task_id"],
        user=row["principal"],
        result=TaskResult.model_validate_json(row["result"]),
        truncated=row["truncated"],
        finished_at=row["finished_at"],
        recorded_at=row["recorded_at"],
        delivery=_delivery(row),
        promotions=_PROMOTIONS.validate_json(row["promotions"]) if row["promotions"] else [],
    )


def _delivery(row: Mapping[Any, Any]) -> Delivery | None:
    if row["delivery"] is None:
        return None
    names = ("state", "attempts", "next_at", "error")
    return Delivery(id=row["delivery"], **{name: row[f"delivery_{name}"] for name in names})
