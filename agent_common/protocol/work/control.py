"""Control frames, `{"ctl": ...}` (docs/protocols/mediation.md#23-extensions). They may be sent once the host has
answered an offer with `welcome`. Unknown fields and kinds are ignored, so that later versions break no earlier one."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints

from ..base import Peer
from .messages import MAX_INTEGER, Id, Version

Number = Annotated[int, Field(ge=0, le=MAX_INTEGER)]
Short = Annotated[str, StringConstraints(max_length=200)]
Verdict = Literal["continue", "cancel", "resend", "forget"]
"""What becomes of a request after a break: go on with it; stop it and say nothing; send its result (again); drop what
is kept, for the host has its result or never wants to hear of it."""


Severity = Literal["LOW", "MEDIUM", "HIGH", "CRITICAL"]


class Control(Peer):
    """Either direction."""

    ctl: ClassVar[str]


class Welcome(Control):
    """Host to guest: the offer is taken. The guest has this identity from now on."""

    ctl = "welcome"
    v: int = 1
    workspace: Id
    agent_id: Id
    epoch: Number
    """Issued by the host and never twice for a workspace: the larger one is the younger life."""
    heartbeat_s: float = Field(default=15.0, gt=0, le=86_400, allow_inf_nan=False)
    """Seconds between pings; three without an answer are the end of the connection."""
    max_line: int = Field(default=1 << 20, ge=1024, le=64 << 20)
    """Bytes of the longest line that the host takes."""
    challenge: Short | None = None
    """Must be answered with `attach` before anything else is taken; none: nothing need be proved."""


class Attach(Control):
    """Guest to host: the answer to the challenge."""

    ctl = "attach"
    sid: Short
    mac: Short


class Resume(Control):
    """Guest to host: what it still has of earlier connections."""

    ctl = "resume"
    running: tuple[Id, ...] = Field(default=(), max_length=4096)
    """Requests that it works on."""
    unacked: tuple[Id, ...] = Field(default=(), max_length=4096)
    """Requests whose results were never acknowledged."""


class ResumeOk(Control):
    """Host to guest: what is to become of each of them. One that is not named goes on, or is sent again."""

    ctl = "resume_ok"
    verdicts: dict[str, Verdict] = Field(default_factory=dict[str, Verdict])


class Ack(Control):
    """Host to guest: that is on the host's disk."""

    ctl = "ack"
    request_id: Id
    what: Literal["result"] = "result"


class WorkUsage(Peer):
    """What a request has used so far, held against its bounds."""

    tokens: Number = 0
    tool_calls: Number = 0
    egress_bytes: Number | None = None
    duration_ms: Number = 0
    cost_usd: float | None = Field(default=None, ge=0, allow_inf_nan=False)


class Progress(Control):
    """Guest to host: how far a request is. Any of them may be dropped."""

    ctl = "progress"
    request_id: Id
    seq: Number
    """Counts within the request and the connection."""
    kind: Short
    """`text` a further piece of the answer, `tool` a call that begins, `step` a step that has ended, `usage`."""
    text: str | None = None
    usage: WorkUsage | None = None


class Cancel(Control):
    """Host to guest: stop that request. Its result is sent all the same."""

    ctl = "cancel"
    request_id: Id
    reason: str = Field(default="cancelled", max_length=4000)


class Drain(Control):
    """Host to guest: take no new work; close the connection when what there is has ended, or the time is up."""

    ctl = "drain"
    deadline_s: float = Field(ge=0, le=604_800, allow_inf_nan=False)


class Ping(Control):
    """Either way; answered with `pong` and the same number."""

    ctl = "ping"
    n: Number


class Pong(Control):
    ctl = "pong"
    n: Number


class Nack(Control):
    """Either way: what came could not be taken."""

    ctl = "nack"
    code: Short
    request_id: Id | None = None
    detail: str | None = Field(default=None, max_length=4000)


class ConstraintsPayload(Control):
    """Host to guest, before the Constraints frame that names it: the bytes of the payload."""

    ctl = "constraints_payload"
    version: Version
    b64: str
    severity: Severity = "LOW"
    """From HIGH on, what runs is stopped at its next step and ends as `yielded`."""


CONTROLS: dict[str, type[Control]] = {
    kind.ctl: kind
    for kind in (
        *(Welcome, Attach, Resume, ResumeOk, Ack, Progress, Cancel, Drain),
        *(Ping, Pong, Nack, ConstraintsPayload),
    )
}
