"""The workspace of a folder: the agent that works there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import CliError

if TYPE_CHECKING:
    from ... import Mesh, Workspace

FOLDER_SETTING = "AGENT_WORKSPACE_DIR"
_SETTINGS = {"AGENT_WORKSPACE_MB": 1 << 20}
"""A folder of yours may be of any size; what the disk has room for is the limit."""
_MOST_OF_ONE_NAME = 100
_LONGEST_ID = 60
_RESERVED = frozenset({"operator"})


async def open_folder(mesh: Mesh, folder: Path) -> Workspace:
    """Return the workspace whose agent works in the folder, made if there is none, and running. Raises CliError,
    ClientError."""
    known = await find_workspace(mesh, folder)
    return await mesh.workspaces.start(known.id if known else await _create(mesh, folder))


async def find_workspace(mesh: Mesh, folder: Path) -> Workspace | None:
    """Return the workspace whose agent works in the folder, or None. Raises ClientError."""
    async for workspace in mesh.workspaces.list():
        if workspace.settings.get(FOLDER_SETTING) == str(folder) and workspace.state != "deleting":
            return workspace
    return None


async def _create(mesh: Mesh, folder: Path) -> str:
    from ... import Conflict

    name = id_of(folder)
    for number in range(1, _MOST_OF_ONE_NAME):
        id = name if number == 1 else f"{name}-{number}"
        try:
            await mesh.workspaces.create(id, driver="process", settings={FOLDER_SETTING: str(folder), **_SETTINGS})
        except Conflict as error:
            if error.code != "id_taken":
                raise
        else:
            return id
    raise CliError(f"the host has {_MOST_OF_ONE_NAME} workspaces called {name}", "`agent ps` lists them")


def id_of(folder: Path) -> str:
    """Return a valid id that looks like the folder's name."""
    id = re.sub(r"[^A-Za-z0-9._-]+", "-", folder.name)[:_LONGEST_ID].strip("-._").lower()
    return f"{id}-1" if id in _RESERVED else id or "agent"
