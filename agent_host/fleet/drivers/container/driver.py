"""Create containers, and start the runtimes in them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Set
from pathlib import Path

from ...driver import LaunchRequest, StartFailed, ended_on_failure
from ...machine import EGRESS_PORT, MEDIATION_PORT, MESH_PORT, HostSockets, SocketDir
from .arguments import FOLDER_LABEL, NO_LABEL, WORKSPACE_LABEL, guest_environment, run_arguments
from .engine import run_engine
from .files import make_user_dir, user_ids, write_secrets
from .runtime import ContainerRuntime
from .settings import ContainerSettings


class ContainerDriver:
    passes_settings = True
    sees_host_files = False

    def __init__(
        self, settings: ContainerSettings, host_sockets: HostSockets, operator_env: Mapping[str, str] = os.environ
    ) -> None:
        self._settings = settings
        self._host_sockets = host_sockets
        self._operator_env = operator_env

    def allocate_url(self) -> str:
        return ""

    def mediation_address(self, workspace_id: str) -> str | None:
        return str(SocketDir.create_for_workspace(self._settings.run_dir, workspace_id).port_socket(MEDIATION_PORT))

    async def create(self, workspace_id: str, data_dir: Path) -> None:
        SocketDir.create_for_workspace(self._settings.run_dir, workspace_id)
        await asyncio.to_thread(make_user_dir, data_dir / "data")

    async def remove(self, workspace_id: str) -> Path | None:
        await self.end_orphan(workspace_id)
        return SocketDir.for_workspace(self._settings.run_dir, workspace_id).folder

    async def start(self, launch: LaunchRequest) -> ContainerRuntime:
        settings = self._settings
        runtime = self._runtime(launch.id)
        socket_dir = runtime.socket_dir
        if owner := await self._foreign_owner(runtime):
            raise StartFailed(f"the container {runtime.name} belongs to another host, with the folder {owner}")
        await runtime.remove()  # left by an earlier process of the host
        async with ended_on_failure(runtime):
            await asyncio.to_thread(make_user_dir, socket_dir.agent_api.parent)
            await asyncio.to_thread(write_secrets, socket_dir.folder / "secrets", launch)
            await self._open_sockets(socket_dir)
            env = guest_environment(launch, self._operator_env)
            arguments = run_arguments(settings, socket_dir, runtime.name, launch, env)
            await run_engine(settings.engine, *arguments, env=env)
            await runtime.wait_until_ready(settings.start_timeout)
        return runtime

    # ---------------------------------------------------------------- containers of an earlier process of the host

    async def find_orphans(self) -> Set[str]:
        engine = self._settings.engine
        only = f"label={FOLDER_LABEL}={self._settings.run_dir}"
        ids = (await run_engine(engine, "ps", "--all", "--quiet", "--filter", only)).stdout.split()
        if not ids:
            return frozenset()
        shape = f'{{{{index .Config.Labels "{WORKSPACE_LABEL}"}}}}'
        return frozenset((await run_engine(engine, "container", "inspect", "--format", shape, *ids)).stdout.split())

    async def open_sockets(self, workspace_id: str) -> None:
        await self._open_sockets(SocketDir.for_workspace(self._settings.run_dir, workspace_id))

    async def adopt(self, workspace_id: str, data_dir: Path) -> ContainerRuntime | None:
        runtime = self._runtime(workspace_id)
        if await self._foreign_owner(runtime) or not (await runtime.status()).running:
            await self._host_sockets.close(runtime.socket_dir)
            return None
        async with ended_on_failure(runtime):
            await self._open_sockets(runtime.socket_dir)
            await runtime.wait_until_ready(self._settings.start_timeout)
        return runtime

    async def end_orphan(self, workspace_id: str) -> None:
        runtime = self._runtime(workspace_id)
        if await self._foreign_owner(runtime) is None:
            await runtime.stop(at_once=True)

    async def _foreign_owner(self, runtime: ContainerRuntime) -> str | None:
        """Return the folder of another host on this machine whose container has this name, or None."""
        shape = f'{{{{index .Config.Labels "{FOLDER_LABEL}"}}}}'
        asked = ("container", "inspect", "--format", shape, runtime.name)
        found = await run_engine(self._settings.engine, *asked, check=False)
        owner = found.stdout.strip()
        return owner if found.code == 0 and owner not in ("", NO_LABEL, str(self._settings.run_dir)) else None

    # ---------------------------------------------------------------- parts

    def _runtime(self, workspace_id: str) -> ContainerRuntime:
        socket_dir = SocketDir.for_workspace(self._settings.run_dir, workspace_id)
        return ContainerRuntime(self._settings, socket_dir, self._host_sockets, f"agent-{socket_dir.folder.name}")

    async def _open_sockets(self, socket_dir: SocketDir) -> None:
        """Open the host's sockets for the container, and let its user connect to them."""
        await self._host_sockets.open(socket_dir)
        await asyncio.to_thread(socket_dir.grant_access, *user_ids(), (MEDIATION_PORT, MESH_PORT, EGRESS_PORT))
