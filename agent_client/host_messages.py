"""What the host answers to its operator (docs/reference/host.md). Fields that are not named here are ignored."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from agent_common.protocol import ListedRequest, TaskResult, Usage
from agent_common.protocol.work import WorkResult

WorkStatus = Literal["queued", "dispatched", "accepted", "resulted", "dead", "cancelled", "expired"]


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)


class Readiness(_Answer):
    """Whether a workspace can be given work."""

    ready: bool
    detail: str
    error: str | None
    code: str | None
    """Why not, as a stable word."""


class Workspace(_Answer):
    """An agent's place at the host. Times are epoch milliseconds."""

    id: str
    driver: str
    state: str
    """`stopped`, `starting`, `running`, `stopping`, `failed` or `deleting`."""
    detail: str | None
    """Why it is in this state, when there is something to say."""
    desired_state: str
    """Whether it is meant to run, also after a restart of the host."""
    team: str
    settings: dict[str, str]
    restart_needed: bool
    """Whether its runtime has older settings until `stop` and `start`."""
    url: str
    data_dir: str
    created_at: int
    result_url: str | None = None
    """Where results of its tasks are sent; None: only where a task says."""
    mediation_ready: Readiness | None = Field(default=None, alias="mediationReady")


class HubPassport(_Answer):
    """Who an agent of the hub is."""

    name: str
    kind: str


class HubResume(_Answer):
    """What an agent of the hub can do, in its own words."""

    summary: str
    claimed_capabilities: list[str]


class HubAgent(_Answer):
    """An agent that is registered on the host's hub."""

    agent_id: str
    passport: HubPassport
    resume: HubResume
    connected: bool
    """Whether it has a link now."""


class HubAgentPage(_Answer):
    agents: list[HubAgent]
    next: str | None


class HubParticipant(_Answer):
    """An agent in a session of the hub."""

    agent_id: str
    name: str


class HubSession(_Answer):
    """A session of agents. Times are epoch milliseconds."""

    session_id: str
    type: str
    state: str
    """`pending`, `active`, `closed` or `expired`."""
    participants: list[HubParticipant]
    """The creator is first."""
    created_at: int
    closed_at: int | None
    close_reason: str | None


class HubSessionPage(_Answer):
    sessions: list[HubSession]
    next: str | None


class CreatedWorkspace(Workspace):
    """A new workspace, with its secrets, which are shown only now."""

    token: str
    mediation_key: str | None
    result_secret: str | None = None
    """Signs results that are sent; None if it was given."""


class WorkspacePage(_Answer):
    workspaces: list[Workspace]
    next: str | None = None


class CommandOutcome(_Answer):
    """The outcome of a command."""

    code: int | None
    stdout: str
    stderr: str


class Console(_Answer):
    console: str


class WorkRecord(_Answer):
    """Work as its caller sees it. Times are epoch milliseconds."""

    request_id: str
    workspace: str
    status: WorkStatus
    attempts: int
    result: WorkResult | None = None
    error: str | None = None
    """Why there is no result: a code, a colon and an explanation."""
    submitted_at: int
    finished_at: int | None = None


class WorkPage(_Answer):
    work: list[WorkRecord]
    next: str | None = None


class HostRequest(ListedRequest):
    """A question or an approval that waits in one of the agents."""

    workspace: str


class UnreachableAgent(_Answer):
    """An agent that did not answer, so that its requests are not known."""

    workspace: str
    code: str
    """Why, as a stable word: `agent_unreachable`, `not_offered`, ..."""
    detail: str


class PendingPage(_Answer):
    pending: list[HostRequest]
    next: str | None = None
    unreachable: list[UnreachableAgent] = []


class Delivery(_Answer):
    """The callback of a result."""

    id: str
    """The `X-Agent-Delivery` of all its attempts."""
    state: Literal["pending", "delivered", "failed"]
    attempts: int
    next_at: int | None = None
    error: str | None = None
    """Why the last attempt failed."""


class ResultRecord(_Answer):
    """The result of a task, from the host or from a caller of the agent. Times are epoch milliseconds."""

    workspace: str
    task_id: str
    user: str
    result: TaskResult
    truncated: bool = False
    """Whether the agent has left out large fields; it has them itself."""
    finished_at: int
    recorded_at: int
    delivery: Delivery | None = None
    """None if no callback was asked for."""


class ResultPage(_Answer):
    results: list[ResultRecord]
    next: int | None = None


class UsageSum(_Answer):
    """All calls of one agent to one model."""

    agent_id: str
    model: str
    calls: int
    not_complete: int
    """Calls that failed, were dropped, or whose client hung up."""
    usage: Usage
    without_price: int = 0
    """Calls whose model had no known price. Their cost is missing from the sum."""


class ModelCall(_Answer):
    """One call of a model."""

    request_id: str
    agent_id: str
    model: str
    status: str
    started_at: int
    duration_ms: int
    usage: Usage | None


class UsageReport(_Answer):
    """What model calls used."""

    sums: list[UsageSum]
    recent: list[ModelCall]
    """The latest calls, newest first."""


class Scope(_Answer):
    """The user or the users, and the workspaces of a token."""

    user: str | None = None
    """None: it speaks for several."""
    users: list[str] | None = None
    """Names and patterns such as `telegram:*`; None: it speaks for one user."""
    workspaces: list[str]


class Token(_Answer):
    """A token without its secret."""

    id: str
    owner: str
    purpose: str
    scope: Scope | None
    created_at: int
    expires_at: int | None


class CreatedToken(Token):
    """A new token, with its secret, which is shown only now."""

    token: str


class TokenList(_Answer):
    tokens: list[Token]
