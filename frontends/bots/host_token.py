"""Looks once at what the bots' token of the host may do, so that the operator learns of a wrong one at the start."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from agent_common.telemetry import logger

if TYPE_CHECKING:
    from agent_client import Mesh

log = logger(__name__)


async def check_host_token(mesh: Mesh, workspaces: Collection[str]) -> None:
    """Log what is wrong with the token, if the host can be reached. `workspaces`: those of the bots."""
    from agent_client import ClientError, Forbidden, Unauthorized

    try:
        async for _ in mesh.workspaces.list():
            break
    except Forbidden:  # as it should be
        for name in workspaces:
            await _check_workspace(mesh, name)
        return
    except Unauthorized:
        log.error("the host does not accept the token of the bots; give them another one by MESH_TOKEN")
        return
    except ClientError as error:
        log.warning("the host does not answer; the bots keep what people write", reason=str(error))
        return
    log.warning("the bots have the token of an operator; `agent-host token --user` makes one that may do less")


async def _check_workspace(mesh: Mesh, name: str) -> None:
    from agent_client import ClientError, Forbidden, NotFound

    try:
        await mesh.pending(workspace=name)
    except (Forbidden, NotFound):
        log.error("the bots have a workspace that is not there, or that their token may not use", workspace=name)
    except ClientError as error:
        log.warning("the host does not answer; the bots keep what people write", reason=str(error))
