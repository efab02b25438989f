"""The fleet's HTTP routes, for the operator."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, ConfigDict, Field

from ..access import check_agent_id, require_operator
from ..http import JsonRoute
from ..listener import Auth, Dialect, Listener, QuarantineWorkspace, Readiness
from .declaration import MediationBlock
from .driver import EXEC_SECONDS
from .fleet import Fleet
from .workspace import State, Workspace

_QUARANTINE = QuarantineWorkspace()
router = APIRouter(prefix="/workspaces", dependencies=[Depends(require_operator)], route_class=JsonRoute)


class CreateWorkspace(BaseModel):
    """Body of `POST /workspaces`."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)

    id: str = Field(min_length=1, max_length=100)
    """The workspace's name, and its agent's."""
    driver: str | None = None
    """How its runtime is run; unset, as a process if this host can do that. `external`: another program boots it."""
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
    mediation_url: str | None = None
    """Address of the mediation channel, as seen from this machine."""
    mediationReady: Readiness | None = None  # noqa: N815  the supervisor's own name
    """Whether the workspace can be given work."""


class CreatedWorkspace(WorkspaceView):
    """A new workspace, with its secrets, which are shown only now."""

    token: str
    """Bearer token of the runtime's HTTP API."""
    mediation_key: str | None
    """The agent's key for the mediation channel; null without authentication."""


async def _view(request: Request, workspace: Workspace) -> WorkspaceView:
    return WorkspaceView.model_validate(await _view_fields(request, workspace))


async def _view_fields(request: Request, workspace: Workspace) -> dict[str, object]:
    listener = _listener(request)
    names = (name for name in workspace.__slots__ if name != "token")
    ready, address = await listener.readiness(workspace.id), listener.address_of(workspace.id)
    return {
        **{name: getattr(workspace, name) for name in names},
        "data_dir": str(workspace.data_dir),
        "mediation_url": str(address) if address else None,
        "mediationReady": asdict(ready) if ready else None,
    }


def _fleet(request: Request) -> Fleet:
    return request.app.state.fleet


def _listener(request: Request) -> Listener:
    return request.app.state.listener


@router.get("")
async def workspaces(request: Request) -> dict[str, list[WorkspaceView]]:
    """List all workspaces, by id."""
    return {"workspaces": [await _view(request, workspace) for workspace in await _fleet(request).list()]}


@router.post("", status_code=201)
async def create(request: Request, body: CreateWorkspace) -> CreatedWorkspace:
    """Create a workspace, stopped, and its mediation channel."""
    fleet, listener = _fleet(request), _listener(request)
    check_agent_id(body.id)
    own, required = _channel_settings(body, fleet, listener)
    _, key = await listener.enrol(body.id, dialect=body.dialect, auth=body.auth, listen=own, required=required)
    try:
        workspace = await fleet.create(body.id, body.driver)
    except BaseException:
        await listener.delete_channel(body.id)
        raise
    shown = await _view_fields(request, workspace)
    return CreatedWorkspace.model_validate({**shown, "token": workspace.token, "mediation_key": key})


def _channel_settings(body: CreateWorkspace, fleet: Fleet, listener: Listener) -> tuple[str | None, bool]:
    """Return the workspace's own address, or None, and whether its channel is required. Raises InvalidRequest if the
    fields contradict each other."""
    machine = fleet.mediation_address(body.id, body.driver)
    own = body.listen or machine
    if body.mediation is None:
        return own, machine is not None
    shared = str(listener.address) if listener.address else None
    return body.mediation.require_consistent().own_address(shared, own), body.mediation.required


@router.get("/{workspace_id}")
async def workspace(request: Request, workspace_id: str) -> WorkspaceView:
    """Read one workspace."""
    return await _view(request, await _fleet(request).get(workspace_id))


@router.post("/{workspace_id}/start")
async def start(request: Request, workspace_id: str) -> WorkspaceView:
    """Start the runtime, and answer once it is ready. No effect if it runs. Ends a drain, and a halt for constraints
    that were not acknowledged; 409 while the workspace is in quarantine."""
    fleet, listener = _fleet(request), _listener(request)
    await fleet.get(workspace_id)
    if listener.has_channel(workspace_id):
        await listener.resume(workspace_id)
    else:
        await listener.enrol(workspace_id)  # created before workspaces had channels
    return await _view(request, await fleet.start(workspace_id))


@router.post("/{workspace_id}/stop")
async def stop(request: Request, workspace_id: str) -> WorkspaceView:
    """Stop the runtime, and answer once it has ended. No effect if it does not run."""
    return await _view(request, await _fleet(request).stop(workspace_id))


@router.get("/{workspace_id}/console")
async def console(request: Request, workspace_id: str) -> dict[str, str]:
    """Read the end of the runtime's output. The guest wrote it: do not trust it."""
    return {"console": await _fleet(request).console(workspace_id)}


@router.post("/{workspace_id}/exec")
async def execute(request: Request, workspace_id: str, body: RunCommand) -> CommandView:
    """Run a command beside the runtime, as the runtime's user."""
    ended = await _fleet(request).exec(workspace_id, body.argv, body.timeout_s)
    return CommandView(code=ended.code, stdout=ended.stdout, stderr=ended.stderr)


@router.post("/{workspace_id}/quarantine")
async def quarantine(request: Request, workspace_id: str, body: QuarantineWorkspace = _QUARANTINE) -> WorkspaceView:
    """Quarantine the workspace without notice to its agent: no agent attaches, the channel is cut, the runtime is
    killed, and work in progress ends as `dead`."""
    fleet = _fleet(request)
    await fleet.get(workspace_id)
    await _listener(request).quarantine(workspace_id, body.reason)
    return await _view(request, await fleet.quarantine(workspace_id))


@router.post("/{workspace_id}/unquarantine")
async def unquarantine(request: Request, workspace_id: str) -> WorkspaceView:
    """End the quarantine. The workspace stays stopped until it is started."""
    await _listener(request).unquarantine(workspace_id)
    return await _view(request, await _fleet(request).get(workspace_id))
