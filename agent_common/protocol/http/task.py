"""TaskAssignment in, TaskResult out (docs/protocols/task.md)."""

from __future__ import annotations

import hashlib
import json
import secrets
from typing import Any, Literal, TypeGuard

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ..base import Inbound, Peer, is_object
from ..usage import Usage
from .chat import MAX_WAIT_SECONDS

TaskStatus = Literal["complete", "failed", "cancelled", "timeout", "skipped", "pending"]
RecordStatus = Literal["queued", "running", "waiting", "complete", "failed", "cancelled", "timeout", "skipped"]
NO_WORKFLOW = "none"
"""The workflow and the step of a task that is no step of one."""
IDENTIFIER = r"^[A-Za-z0-9][A-Za-z0-9._:\-]*$"


def new_task_id() -> str:
    return f"task_{secrets.token_hex(6)}"


class TokenBudget(Inbound):
    """The spending limits of a task. A field that is left out has its default."""

    max_tokens: int = Field(default=500_000, gt=0)
    """Most tokens that the task may use in total, including `used_tokens`."""
    used_tokens: int = Field(default=0, ge=0)
    """Tokens that were already spent on this task elsewhere."""
    max_cost_usd: float = Field(default=5.0, gt=0, allow_inf_nan=False)
    """Most US dollars the task may cost; needs a model with a known price when set."""
    estimated_cost_usd: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Dollars that were already spent on this task elsewhere."""


PromotionRule = Literal["last_writer", "if_absent"]
"""`last_writer`: the promoted value takes its place; `if_absent`: what is there stays."""


class TaskAssignment(Inbound):
    """One objective with an expected output, given by an orchestrator."""

    task_id: str = Field(default_factory=new_task_id, min_length=1, max_length=200, pattern=IDENTIFIER)
    """The caller's id: the same id with the same content is the same task."""
    objective: str | None = Field(default=None, min_length=1, max_length=100_000)
    """What the agent is to do, in words. Without it `input_data` must say so."""
    workflow_id: str = Field(default=NO_WORKFLOW, min_length=1, max_length=200)
    """The workflow that this task is a step of."""
    step_id: str = Field(default=NO_WORKFLOW, min_length=1, max_length=200)
    """The step inside that workflow."""
    task_type: str = Field(default="task", min_length=1, max_length=200)
    """The kind of work, in the orchestrator's words."""
    input_data: dict[str, Any] = Field(default_factory=dict)
    """The task's input, shown to the agent."""
    context: dict[str, Any] = Field(default_factory=dict)
    """Further facts, shown to the agent."""
    timeout: float = Field(default=120, gt=0, le=604_800, allow_inf_nan=False)
    """Seconds that the run may take, counted from its start, without the time in the queue."""
    max_retries: int = Field(default=0, ge=0, le=100)
    """Further attempts after a transient model failure."""
    token_budget: TokenBudget | None = None
    """Spending limits; null means only those in the settings."""
    agent: str | None = Field(default=None, min_length=1, max_length=200)
    """The agent that carries it out; null means `default`."""
    result_schema: dict[str, Any] | None = None
    """A JSON Schema (2020-12) of an object, which `result` fits when the task is complete; null means any object."""
    result_url: str | None = Field(default=None, min_length=1, max_length=2000)
    """Where the host sends the result: an https URL (docs/reference/results.md). Needs a channel to a host."""

    promotion_rule: PromotionRule | None = None
    """Which value stays where another is in the place of one that the result promotes; null means `last_writer`."""

    @property
    def is_step(self) -> bool:
        """Whether it is a step of a workflow."""
        return (self.workflow_id, self.step_id) != (NO_WORKFLOW, NO_WORKFLOW)

    @model_validator(mode="after")
    def _says_what_to_do(self) -> TaskAssignment:
        if self.objective is None and "input_data" not in self.model_fields_set:
            raise ValueError("give an objective, or input_data")
        return self

    def fingerprint(self) -> str:
        """Return the SHA-256 of the canonical JSON after defaults, without the id."""
        # Stored tasks may be older than these fields.
        optional = ("agent", "objective", "result_schema", "result_url", "promotion_rule")
        unset = {name for name in optional if getattr(self, name) is None}
        content = self.model_dump(mode="json", exclude={"task_id", *unset})
        canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()


def is_assignment(content: object) -> TypeGuard[dict[str, Any]]:
    """Whether JSON is meant as a TaskAssignment, and not as the data of one: it has `objective` or `input_data`, and no
    unknown fields. With both `input_data` and `task_type` it is one, and an unknown field is a fault."""
    if not is_object(content):
        return False
    given = content.keys()
    if given >= {"input_data", "task_type"}:
        return True
    return given <= TaskAssignment.model_fields.keys() and not given.isdisjoint({"objective", "input_data"})


class TaskResult(Peer):
    """The outcome of a task."""

    task_id: str
    status: TaskStatus
    result: dict[str, Any] | None = None
    """The answer; partial if a limit ended the run."""
    error: str | None = None
    """Why there is no complete answer, as text."""
    error_code: str | None = None
    """Why there is no complete answer, as a stable code."""
    limit: str | None = None
    """The limit that ended the run, if one did."""
    retry_after: float | None = Field(default=None, exclude_if=lambda seconds: seconds is None)
    """Seconds that the model's provider asks to wait; left out if it gave none."""
    promote_to_blackboard: dict[str, Any] = Field(default_factory=dict)
    """Values that the agent wants to share with its team, by key (docs/reference/results.md#promotions)."""
    tokens_used: int = 0
    duration_ms: int = 0
    usage: Usage = Field(default_factory=Usage)
    session_id: str | None = None


class TaskRecord(TaskResult):
    """A task in any state, finished or not. Times are epoch milliseconds UTC."""

    status: RecordStatus  # type: ignore[assignment]  # a record also knows the states before the end
    created_at: int
    started_at: int | None = None
    finished_at: int | None = None
    attempts: int = 0


class ListedTask(TaskRecord):
    """A task in a list, with the user it belongs to."""

    user: str


class TaskList(Peer):
    """A page of tasks, the newest first."""

    tasks: list[ListedTask]
    next: str | None = Field(default=None, exclude_if=lambda cursor: cursor is None)
    """Pass it as `after` to get the next page; absent on the last one."""


class TasksQuery(BaseModel):
    """Which tasks to list."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    status: list[RecordStatus] = Field(default_factory=list[RecordStatus], max_length=8)
    """Only tasks with one of these; may be repeated."""
    user: str | None = Field(default=None, min_length=1, max_length=200)
    """Only tasks of this user; unset, of the user in `X-Agent-User`, or of all users."""
    limit: int = Field(default=50, ge=1, le=500)
    after: str | None = Field(default=None, min_length=1, max_length=200)


class ResultQuery(BaseModel):
    """Whose result to give."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    task_id: str | None = None
    """Unset: of the task that finished last."""
    wait: float = Field(default=0.0, ge=0, le=MAX_WAIT_SECONDS, allow_inf_nan=False)
    """Seconds to wait for the end of the task."""


class TaskAccepted(Peer):
    """Answer to `POST /task`: the task is on disk."""

    accepted: Literal[True] = True
    task_id: str
    session_id: str
    status: RecordStatus
    queued_behind: int = 0
    """Turns that were admitted before this one and have not ended."""
