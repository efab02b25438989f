"""`agent-host enrol`: the workspace of an agent that another program boots, and the secrets that it is booted with."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import Conflict, NotFound, StartError
from ..settings import HostSettings, load_settings

if TYPE_CHECKING:
    from ..access import TokenStore
    from ..database import HostDatabase
    from ..fleet import Workspace, Workspaces

_MODE = 0o640
"""Of the secrets. The folder's own mode says who comes that far: 0700 if it is made here."""


def enrol(
    agent_id: Annotated[str, typer.Argument(metavar="ID", help="The agent's id, and its workspace's.")],
    secrets: Annotated[Path, typer.Option(help="The folder for `token`, `mesh` and `mediation.key`.")],
) -> None:
    """Make a workspace for an agent that another program boots, and write the agent's secrets into a folder.

    Repeated, it makes no other workspace and writes what is missing. A new workspace is made while no host runs; while
    one does, use POST /workspaces.
    """
    from ..access import check_agent_id
    from ..fleet import EXTERNAL
    from ..logs import configure_logs

    check_agent_id(agent_id)
    settings = load_settings()
    configure_logs("warning", settings.log_format)
    with _open_workspaces(settings) as (database, tokens, workspaces):
        try:
            workspace = asyncio.run(workspaces.get(agent_id))
        except NotFound:
            workspace = asyncio.run(_create(settings, database, tokens, workspaces, agent_id))
        if workspace.driver != EXTERNAL:
            raise Conflict(f"the driver {workspace.driver} of the workspace {agent_id!r} boots its agent itself")
        if workspace.desired_state == "stopped":
            print(f"{agent_id} is stopped and gets no token; start it first", file=sys.stderr)
            return
        _write_secrets(database, tokens, workspace, secrets)
    print(secrets)


@contextmanager
def _open_workspaces(settings: HostSettings) -> Generator[tuple[HostDatabase, TokenStore, Workspaces]]:
    from agent_common.clock import SystemClock

    from ..fleet import Workspaces
    from .tokens import open_tokens

    with open_tokens(settings) as (database, tokens):
        yield database, tokens, Workspaces(database, settings.data_dir / "workspaces", SystemClock())


async def _create(
    settings: HostSettings,
    database: HostDatabase,
    tokens: TokenStore,
    workspaces: Workspaces,
    agent_id: str,
) -> Workspace:
    """Create workspace and channel. A process that is killed in between leaves a channel, which the next one uses."""
    from ..fleet import EXTERNAL, ExternalDriver, Fleet
    from ..listener import Listener, ledger_lock

    with ledger_lock(settings.database):
        async with Listener(database, None) as listener:
            if agent_id not in listener.channels:
                await listener.workspaces.enrol(agent_id, required=True)
            fleet = Fleet(workspaces, {EXTERNAL: ExternalDriver()}, tokens, "")
            try:
                return await fleet.create(agent_id, EXTERNAL)
            finally:
                await fleet.close()


def _write_secrets(database: HostDatabase, tokens: TokenStore, workspace: Workspace, folder: Path) -> None:
    from ..listener import channel_key_in

    key = database.run_sync(lambda connection: channel_key_in(connection, workspace.id))
    if key is None:
        raise Conflict(f"the channel of {workspace.id!r} has no key, so there is nothing to enrol its agent with")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write(folder / "token", workspace.token)
        _write(folder / "mediation.key", key)
        mesh = database.run_sync(lambda connection: tokens.ensure_file_in(connection, workspace.id, folder / "mesh"))
        mesh.chmod(_MODE)
    except OSError as error:
        raise StartError(f"--secrets: cannot write to {folder}: {error.strerror}") from error


def _write(path: Path, secret: str) -> None:
    """Replace the file, so that a reader sees the whole secret or none."""
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    with open(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, _MODE), "w") as file:
        file.write(f"{secret}\n")
    new.chmod(_MODE)
    new.replace(path)
