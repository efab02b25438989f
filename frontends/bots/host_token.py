"""Looks once at what the bots' token of the host may do, so that the operator learns of a wrong one at the start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_common.telemetry import logger

if TYPE_CHECKING:
    from agent_client import Mesh

log = logger(__name__)


async def check_host_token(mesh: Mesh) -> None:
    """Log what is wrong with the token, if the host can be reached."""
    from agent_client import ClientError, Forbidden, Unauthorized

    try:
        async for _ in mesh.workspaces.list():
            break
    except Forbidden:  # as it should be
        return
    except Unauthorized:
        log.error("the host does not accept the token of the bots; give them another one by MESH_TOKEN")
        return
    except ClientError as error:
        log.warning("the host does not answer; the bots keep what people write", reason=str(error))
        return
    log.warning("the bots have the token of an operator; `agent-host token --user` makes one that may do less")
