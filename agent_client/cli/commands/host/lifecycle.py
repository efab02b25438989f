"""`agent start`, `agent stop` and `agent rm`: one agent of a host, without the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ...contexts import change_contexts, open_mesh
from ...errors import CliError
from ...run import Invocation, command

if TYPE_CHECKING:
    from .... import Workspace

Id = Annotated[str, typer.Argument(metavar="WORKSPACE", help="As `agent ps` lists it.")]


@command
async def start(call: Invocation, id: Id) -> None:
    """Start an agent, and wait until it is ready."""
    async with call.mesh() as mesh:
        _report(call, await mesh.workspaces.start(id))


@command
async def stop(call: Invocation, id: Id) -> None:
    """Stop an agent. It stays stopped until you start it."""
    async with call.mesh() as mesh:
        _report(call, await mesh.workspaces.stop(id))


@command
async def rm(
    call: Invocation,
    id: Id,
    force: Annotated[bool, typer.Option("-f", "--force", help="Also if it runs.")] = False,
) -> None:
    """Delete an agent: its sessions, memory and tokens.

    The folder in which an agent of `agent up` works stays.
    """
    from .... import Conflict, NotFound

    target = call.target()
    async with open_mesh(target) as mesh:
        try:
            await mesh.workspaces.delete(id, force=force)
        except Conflict as error:
            if error.code != "running":
                raise
            raise CliError(f"{id} is not stopped", f"`agent stop {id}` first, or `agent rm -f {id}`") from None
        except NotFound:
            _forget(target.url, id)
            raise
    _forget(target.url, id)
    if call.output.json:
        call.output.document({"id": id, "deleted": True})
    else:
        call.output.line(f"{id} is deleted")


def _forget(url: str, id: str) -> None:
    """Have commands without `-w` no longer mean a workspace that is gone."""
    change_contexts(lambda known: known.forgetting(url.rstrip("/"), id))


def _report(call: Invocation, workspace: Workspace) -> None:
    if call.output.json:
        call.output.document(workspace.model_dump(mode="json", by_alias=True))
    else:
        call.output.line(f"{workspace.id} is {workspace.state}")
