"""Bodies of HTTP requests and responses about workspaces."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from agent_common.protocol import limit_faults

from ...errors import InvalidRequest
from ...listener import Auth, Dialect, Readiness
from ..driver import EXEC_SECONDS
from ..workspace import DEFAULT_TEAM, DesiredState, State
from .declaration import MediationBlock

TEAM = r"^[A-Za-z0-9][A-Za-z0-9._\-]{0,99}$"
"""A team's name; the same characters as in an id."""


VISIBLE = r"^[\x21-\x7e]{1,200}$"
"""Printable ASCII without spaces."""


class CreateWorkspace(BaseModel):
    """Body of `POST /workspaces`."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)

    id: str = Field(min_length=1, max_length=100)
    """The workspace's name, and its agent's."""
    driver: str | None = None
    """How its runtime is run; unset, as a process if this host can do that. `external`: another program boots it."""
    team: str = Field(default=DEFAULT_TEAM, pattern=TEAM)
    """The team that it belongs to, for lists."""
    settings: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue], max_length=100)
    """Variables of its runtime (docs/reference/host.md#the-settings-of-a-workspace)."""
    dialect: Dialect = "strict"
    """The dialect of its agent on the mediation channel (docs/protocols/mediation.md#11-two-dialects)."""
    auth: Auth | None = None
    """How its agent proves its identity on the channel: `hmac` with a key, `none` by an address of its own. Unset, it
    is `hmac` for the strict dialect and `none` for the loose one."""
    listen: str | None = Field(default=None, max_length=300)
    """The agent's own address: tcp://host:port, unix:/path or vsock://:port. Unset, agents share one address."""
    mediation: MediationBlock | None = None
    """The channel as in microagent.yaml: required and fail-closed unless it says otherwise. Unset, the channel of a
    microVM is required, and that of a process is not."""
    result_url: str | None = Field(default=None, min_length=1, max_length=2000)
    """Where results of all its tasks are sent (docs/reference/results.md#callbacks). Unset, only where a task says."""
    result_secret: str | None = Field(default=None, pattern=VISIBLE)
    """Signs what is sent. Unset, one is made and shown once."""


class ChangeWorkspace(BaseModel):
    """Body of `PATCH /workspaces/{id}`; what is left out stays as it is."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True, use_attribute_docstrings=True)

    team: str | None = Field(default=None, pattern=TEAM)
    """The team that it belongs to."""
    settings: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue], max_length=100)
    """Variables of its runtime to set; null takes one away, and the others stay."""
    mediation: MediationBlock | None = None
    """The whole declaration of its channel. Port and target cannot change."""
    result_url: str | None = Field(default=None, min_length=1, max_length=2000)
    """Where results of its tasks are sent from now on; null: only where a task says."""
    result_secret: str | None = Field(default=None, pattern=VISIBLE)
    """Signs what is sent from now on. It is not shown again."""

    def require_known(self) -> Self:
        """Return the body. Raises InvalidRequest that names each field that cannot change or is unknown."""
        fixed = "cannot change; delete the workspace and create it again"
        extra = self.model_extra or {}
        known = CreateWorkspace.model_fields
        faults = [(name[:100], fixed if name in known else "there is no such field") for name in extra]
        if faults:
            raise InvalidRequest.from_faults(limit_faults(faults))
        return self


class RunCommand(BaseModel):
    """Body of `POST /workspaces/{id}/exec`."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)

    argv: list[str] = Field(min_length=1, max_length=256)
    """Program and arguments, run without a shell."""
    timeout_s: float = Field(default=EXEC_SECONDS, gt=0, le=300)


class CommandView(BaseModel):
    """The outcome of a command."""

    code: int | None
    stdout: str
    stderr: str


class WorkspaceView(BaseModel):
    """A workspace as the operator sees it."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    id: str
    driver: str
    state: State
    detail: str | None
    """Why it is in this state, when there is something to say."""
    url: str
    """URL of its runtime while it runs."""
    data_dir: str
    created_at: int
    """Epoch milliseconds."""
    desired_state: DesiredState
    """Whether it is meant to run, also after a restart of the host."""
    team: str
    settings: dict[str, str]
    """Variables of its runtime that its creator has chosen."""
    restart_needed: bool
    """Whether its runtime was started before settings were changed, and has them only after `stop` and `start`."""
    mediation: MediationBlock | None
    """Its channel as it could be declared; null if it has none."""
    result_url: str | None = None
    """Where results of its tasks are sent; null: only where a task says."""
    mediation_url: str | None = None
    """Address of the mediation channel, as seen from this machine."""
    mediationReady: Readiness | None = None  # noqa: N815  the supervisor's own name
    """Whether the workspace can be given work."""


class WorkspacePage(BaseModel):
    """Answer to `GET /workspaces`."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    workspaces: list[WorkspaceView]
    next: str | None = None
    """Pass it as `after` for the next page; null: there are no more."""


class CreatedWorkspace(WorkspaceView):
    """A new workspace, with its secrets, which are shown only now."""

    token: str
    """Bearer token of the runtime's HTTP API."""
    mediation_key: str | None
    """The agent's key for the mediation channel; null without authentication."""
    result_secret: str | None
    """Signs results that are sent; null if the caller has chosen it."""
