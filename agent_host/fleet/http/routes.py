"""The fleet's HTTP routes, for the operator."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request

from ...access import check_agent_id, require_operator
from ...callback_targets import CallbackTargets
from ...errors import NotFound
from ...http import JsonRoute
from ...listener import Listener, QuarantineWorkspace
from ..changes import WorkspaceChanges
from ..deletion import WorkspaceDeletion
from ..fleet import Fleet
from ..workspace import Workspace, WorkspaceQuery, check_not_deleting
from ..workspace_settings import check_settings, merge_settings
from .declaration import MediationBlock
from .result_target import changed_target
from .schemas import (
    ChangeWorkspace,
    CommandView,
    CreatedWorkspace,
    CreateWorkspace,
    RunCommand,
    WorkspacePage,
    WorkspaceView,
)

_QUARANTINE = QuarantineWorkspace()
router = APIRouter(prefix="/workspaces", dependencies=[Depends(require_operator)], route_class=JsonRoute)


async def _view(request: Request, workspace: Workspace) -> WorkspaceView:
    return WorkspaceView.model_validate(await _view_fields(request, workspace))


async def _view_fields(request: Request, workspace: Workspace) -> dict[str, object]:
    listener = _listener(request)
    names = (name for name in workspace.__slots__ if name != "token")
    ready = await listener.workspaces.readiness(workspace.id)
    address = listener.workspaces.address_of(workspace.id)
    return {
        **{name: getattr(workspace, name) for name in names},
        "data_dir": str(workspace.data_dir),
        "mediation": _declaration(listener, workspace.id),
        "mediation_url": str(address) if address else None,
        "result_url": listener.channels.get(workspace.id).result_url if workspace.id in listener.channels else None,
        "mediationReady": asdict(ready) if ready else None,
    }


def _declaration(listener: Listener, workspace_id: str) -> MediationBlock | None:
    """Return the workspace's channel as it could be declared; None if it has none."""
    if workspace_id not in listener.channels:
        return None
    required = listener.channels.get(workspace_id).required
    address = listener.workspaces.address_of(workspace_id)
    target = str(address).removeprefix("tcp://") if address else None
    return MediationBlock.model_construct(required=required, failClosed=required, target=target)


def _fleet(request: Request) -> Fleet:
    return request.app.state.fleet


def _listener(request: Request) -> Listener:
    return request.app.state.listener


def _targets(request: Request) -> CallbackTargets:
    return request.app.state.callback_targets


@router.get("")
async def workspaces(
    request: Request,
    team: Annotated[str | None, Query(max_length=100, description="Only of this team")] = None,
    after: Annotated[str | None, Query(max_length=100, description="`next` of the page before")] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="How many workspaces")] = 100,
) -> WorkspacePage:
    """List workspaces, by id."""
    found = await _fleet(request).list(WorkspaceQuery(team=team, after=after, limit=limit + 1))
    shown = [await _view(request, workspace) for workspace in found[:limit]]
    return WorkspacePage(workspaces=shown, next=shown[-1].id if len(found) > len(shown) else None)


@router.post("", status_code=201)
async def create(request: Request, body: CreateWorkspace) -> CreatedWorkspace:
    """Create a workspace, stopped, and its mediation channel."""
    fleet = _fleet(request)
    listener = _listener(request)
    check_agent_id(body.id)
    settings = merge_settings({}, check_settings(body.settings))
    own, required = _channel_settings(body, fleet, listener)
    channel, key = await listener.workspaces.enrol(
        body.id,
        dialect=body.dialect,
        auth=body.auth,
        listen=own,
        required=required,
        result_url=_targets(request).require("result_url", body.result_url) if body.result_url is not None else None,
        result_secret=body.result_secret,
    )
    try:
        workspace = await fleet.create(body.id, body.driver, team=body.team, settings=settings)
    except BaseException:
        await listener.workspaces.delete_channel(body.id)
        raise
    shown = await _view_fields(request, workspace)
    made = None if body.result_secret is not None else channel.result_secret
    secrets = {"token": workspace.token, "mediation_key": key, "result_secret": made}
    return CreatedWorkspace.model_validate({**shown, **secrets})


def _channel_settings(body: CreateWorkspace, fleet: Fleet, listener: Listener) -> tuple[str | None, bool]:
    """Return the workspace's own address, or None, and whether its channel is required. Raises InvalidRequest if the
    fields contradict each other."""
    machine = fleet.mediation_address(body.id, body.driver)
    own = body.listen or machine
    if body.mediation is None:
        return own, machine is not None
    shared = str(listener.workspaces.address) if listener.workspaces.address else None
    return body.mediation.require_consistent().own_address(shared, own), body.mediation.required


@router.get("/{workspace_id}")
async def workspace(request: Request, workspace_id: str) -> WorkspaceView:
    """Read one workspace."""
    return await _view(request, await _fleet(request).get(workspace_id))


@router.patch("/{workspace_id}")
async def change(request: Request, workspace_id: str, body: ChangeWorkspace) -> WorkspaceView:
    """Change a workspace. A runtime that runs has the changes from its next start on: `restart_needed` says so."""
    fleet = _fleet(request)
    listener = _listener(request)
    settings = check_settings(body.require_known().settings)
    await fleet.get(workspace_id)
    required = _changed_requirement(body, workspace_id, listener)
    target = changed_target(body, workspace_id, listener, _targets(request))
    changes: WorkspaceChanges = request.app.state.changes
    changed = await changes.change(
        workspace_id, team=body.team, settings=settings, channel_changes=required is not None
    )
    if required is not None:
        await listener.workspaces.set_required(workspace_id, required)
    if target is not None:
        await listener.workspaces.set_result_target(workspace_id, target.url, target.secret)
    return await _view(request, changed)


def _changed_requirement(body: ChangeWorkspace, workspace_id: str, listener: Listener) -> bool | None:
    """Return whether the channel becomes required; None if that stays as it is. Raises InvalidRequest and NotFound."""
    if body.mediation is None:
        return None
    address = listener.workspaces.address_of(workspace_id)
    block = body.mediation.require_consistent().require_address(str(address) if address else None)
    return None if block.required == listener.channels.get(workspace_id).required else block.required


@router.delete("/{workspace_id}", status_code=204)
async def delete(
    request: Request,
    workspace_id: str,
    force: Annotated[bool, Query(description="Stop it first if it runs")] = False,
) -> None:
    """Delete a workspace that is stopped, with its data and its tokens. The ledgers and the audit trail keep what they
    have. Answers when all is gone."""
    deletion: WorkspaceDeletion = request.app.state.deletion
    await deletion.delete(workspace_id, force=force)


@router.post("/{workspace_id}/start")
async def start(request: Request, workspace_id: str) -> WorkspaceView:
    """Start the runtime, and answer once it is ready. No effect if it runs. Ends a drain, and a halt for constraints
    that were not acknowledged; 409 while the workspace is in quarantine."""
    fleet = _fleet(request)
    listener = _listener(request)
    check_not_deleting(await fleet.get(workspace_id))
    if workspace_id in listener.channels:
        await listener.workspaces.resume(workspace_id)
    else:
        await listener.workspaces.enrol(workspace_id)  # created before workspaces had channels
    try:
        return await _view(request, await fleet.start(workspace_id))
    except NotFound:  # it was deleted meanwhile
        await listener.workspaces.delete_channel(workspace_id)
        raise


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
    fencing = asyncio.create_task(_listener(request).workspaces.quarantine(workspace_id, body.reason))
    await asyncio.sleep(
        0
    )  # the fence holds from here on; a database that fails or hangs must not keep a runtime running
    try:
        stopped = await _fleet(request).quarantine(workspace_id)
    finally:
        await fencing
    return await _view(request, stopped)


@router.post("/{workspace_id}/unquarantine")
async def unquarantine(request: Request, workspace_id: str) -> WorkspaceView:
    """End the quarantine. The workspace stays stopped until it is started."""
    await _listener(request).workspaces.unquarantine(workspace_id)
    return await _view(request, await _fleet(request).get(workspace_id))
