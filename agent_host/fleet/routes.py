"""The fleet's HTTP face, for the operator."""

from __future__ import annotations

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, ConfigDict, Field

from ..access import operator
from .fleet import Fleet
from .workspace import State, Workspace

router = APIRouter(prefix="/workspaces", dependencies=[Depends(operator)])


class CreateWorkspace(BaseModel):
    """Body of `POST /workspaces`."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)

    id: str = Field(min_length=1, max_length=100)
    """The workspace's name, and its agent's."""
    driver: str = "process"
    """How its runtime is run."""


class WorkspaceView(BaseModel):
    """A workspace as the operator sees it."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    id: str
    driver: str
    state: State
    detail: str | None
    """Why it is in this state, when there is something to say."""
    url: str
    """Where its runtime is reached while it runs."""
    data_dir: str
    created_at: int
    """Epoch milliseconds."""


class CreatedWorkspace(WorkspaceView):
    """A new workspace, with the one thing that is shown only now."""

    token: str
    """Bearer token of the runtime's HTTP face."""


def _view(workspace: Workspace) -> WorkspaceView:
    return WorkspaceView.model_validate(_members(workspace))


def _members(workspace: Workspace) -> dict[str, object]:
    names = (name for name in workspace.__slots__ if name != "token")
    return {**{name: getattr(workspace, name) for name in names}, "data_dir": str(workspace.data_dir)}


def _fleet(request: Request) -> Fleet:
    return request.app.state.fleet


@router.get("")
async def workspaces(request: Request) -> dict[str, list[WorkspaceView]]:
    """All workspaces, by id."""
    return {"workspaces": [_view(workspace) for workspace in await _fleet(request).list()]}


@router.post("", status_code=201)
async def create(request: Request, body: CreateWorkspace) -> CreatedWorkspace:
    """A new workspace, stopped."""
    workspace = await _fleet(request).create(body.id, body.driver)
    return CreatedWorkspace.model_validate({**_members(workspace), "token": workspace.token})


@router.get("/{workspace_id}")
async def workspace(request: Request, workspace_id: str) -> WorkspaceView:
    """One workspace."""
    return _view(await _fleet(request).get(workspace_id))


@router.post("/{workspace_id}/start")
async def start(request: Request, workspace_id: str) -> WorkspaceView:
    """Starts its runtime and answers when it is ready. One that runs stays as it is."""
    return _view(await _fleet(request).start(workspace_id))


@router.post("/{workspace_id}/stop")
async def stop(request: Request, workspace_id: str) -> WorkspaceView:
    """Stops its runtime and answers when it has ended. One that does not run stays as it is."""
    return _view(await _fleet(request).stop(workspace_id))
