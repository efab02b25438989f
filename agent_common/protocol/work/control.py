"""Control frames, `{"ctl": ...}` (docs/protocols/mediation.md#23-extensions). They may be sent once the host has
answered an offer with `welcome`. Unknown fields and kinds are ignored, so that later versions break no earlier one."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from ..base import Peer
from ..http.task import PromotionRule, TaskResult
from .messages import MAX_INTEGER, Id, Version

Number = Annotated[int, Field(ge=0, le=MAX_INTEGER)]
Short = Annotated[str, StringConstraints(max_length=200)]
Verdict = Literal["continue", "cancel", "resend", "forget"]
"""What a guest does with a request after a break. `continue`: keep working; `cancel`: stop without a result; `resend`:
send its result again; `forget`: drop it, because the host has its result or does not want it."""


Severity = Literal["LOW", "MEDIUM", "HIGH", "CRITICAL"]


class Control(Peer):
    """Base of all control frames."""

    ctl: ClassVar[str]


class Welcome(Control):
    """Host to guest: the host accepts the offer, and gives the guest its identity."""

    ctl = "welcome"
    v: int = 1
    workspace: Id
    agent_id: Id
    epoch: Number
    """Number of the attachment, never used twice for a workspace. A larger number is a newer attachment."""
    heartbeat_s: float = Field(default=15.0, gt=0, le=86_400, allow_inf_nan=False)
    """Seconds between pings. Three pings without an answer end the connection."""
    max_line: int = Field(default=1 << 20, ge=1024, le=64 << 20)
    """Bytes of the longest line that the host accepts."""
    challenge: Short | None = None
    """Must be answered with `attach` before the host accepts other frames; null means that no proof is needed."""
    task_results: bool = Field(default=False, exclude_if=lambda taken: not taken)
    """Whether the host takes `task_result`, which the guest has offered."""
    mac: Short | None = None
    """The host's proof that it has the workspace's key; null means that it has none."""


class Attach(Control):
    """Guest to host: the answer to the challenge."""

    ctl = "attach"
    sid: Short
    mac: Short


class Resume(Control):
    """Guest to host: the requests that the guest still has from earlier connections."""

    ctl = "resume"
    running: tuple[Id, ...] = Field(default=(), max_length=4096)
    """Requests that the guest is working on."""
    unacked: tuple[Id, ...] = Field(default=(), max_length=4096)
    """Requests whose results the host has not acknowledged."""


class ResumeOk(Control):
    """Host to guest: a verdict on each request of `resume`. Requests without a verdict continue, or are sent again."""

    ctl = "resume_ok"
    verdicts: dict[str, Verdict] = Field(default_factory=dict[str, Verdict])


class Ack(Control):
    """Host to guest: the result is durable on the host."""

    ctl = "ack"
    request_id: Id
    what: Literal["result"] = "result"


class TaskReport(Control):
    """Guest to host, if both ends have agreed: a task has ended that was not given over the channel. It is sent again
    until it is acknowledged."""

    ctl = "task_result"
    task_id: Id
    user: Id
    """The user who has posted the task. Ids of tasks are unique for each user."""
    finished_at: Number
    """Epoch milliseconds. The same task with another time has ended a second time."""
    result: TaskResult
    result_url: Annotated[str, StringConstraints(max_length=2000, pattern=r"^[\x21-\x7e]+$")] | None = None
    """Where the task's caller wants the result sent."""
    promotion_rule: PromotionRule | None = Field(default=None, exclude_if=lambda rule: rule is None)
    """What the task says of values that it promotes; null means `last_writer`."""
    truncated: bool = Field(default=False, exclude_if=lambda cut: not cut)
    """Whether fields of the result are left out because the whole does not fit into a line; the agent has them."""

    @model_validator(mode="after")
    def _one_task(self) -> Self:
        if self.result.task_id != self.task_id:
            raise ValueError("result.task_id must equal task_id")
        return self


class TaskAck(Control):
    """Host to guest: the result of the task is durable on the host."""

    ctl = "task_ack"
    task_id: Id
    user: Id


class WorkUsage(Peer):
    """A request's usage so far, which is compared with its bounds."""

    tokens: Number = 0
    tool_calls: Number = 0
    egress_bytes: Number | None = None
    duration_ms: Number = 0
    cost_usd: float | None = Field(default=None, ge=0, allow_inf_nan=False)


class OpenApi(Control):
    """Host to guest, if the guest has offered `api=1`: open a connection to my address and serve your HTTP API on
    it."""

    ctl = "open_api"
    id: Id
    """A random name of the connection, for one use."""


class ApiOpened(Control):
    """Guest to host, the only line of a new connection: this is the connection that `open_api` has asked for. From
    here on it carries HTTP, and the host sends the requests."""

    ctl = "api_opened"
    id: Id
    agent_id: Id
    mac: Short | None = None
    """The proof, as in `attach`, with `api ` and the id as the challenge; null if the guest's address is its proof."""


class Progress(Control):
    """Guest to host: progress of a request. Progress frames may be dropped."""

    ctl = "progress"
    request_id: Id
    seq: Number
    """Counts the progress frames of the request on this connection."""
    kind: Short
    """`queued`: the agent has accepted it and begins it later; `started`: it has begun it now; `text`: a further piece
    of the answer; `tool`: a call that starts; `step`: a step that has ended; `usage`."""
    text: str | None = None
    usage: WorkUsage | None = None


DEADLINE_EXCEEDED = "deadline_exceeded"
"""The reason of a `cancel` for a request that has taken too long."""


class Cancel(Control):
    """Host to guest: stop the request. Its result is still sent, with the reason `deadline_exceeded` as `yielded`."""

    ctl = "cancel"
    request_id: Id
    reason: str = Field(default="cancelled", max_length=4000)


class Drain(Control):
    """Host to guest: accept no more work, and close once all work has ended or the deadline has passed."""

    ctl = "drain"
    deadline_s: float = Field(ge=0, le=604_800, allow_inf_nan=False)


class Ping(Control):
    """In both directions: answered with `pong` and the same number."""

    ctl = "ping"
    n: Number


class Pong(Control):
    ctl = "pong"
    n: Number


class Nack(Control):
    """In both directions: a frame was refused."""

    ctl = "nack"
    code: Short
    request_id: Id | None = None
    detail: str | None = Field(default=None, max_length=4000)


class ConstraintsPayload(Control):
    """Host to guest, before the Constraints frame that refers to it: the bytes of the payload."""

    ctl = "constraints_payload"
    version: Version
    b64: str
    severity: Severity = "LOW"
    """From HIGH on, running work stops at its next step and ends as `yielded`."""


CONTROLS: dict[str, type[Control]] = {
    kind.ctl: kind
    for kind in (
        *(Welcome, Attach, Resume, ResumeOk, Ack, TaskReport, TaskAck),
        *(Progress, Cancel, Drain, Ping, Pong, Nack, ConstraintsPayload, OpenApi, ApiOpened),
    )
}
