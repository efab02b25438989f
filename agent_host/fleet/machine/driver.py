"""What the drivers of microVMs have in common: their folders, the frame of a start, and machines of an earlier host."""

from __future__ import annotations

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Set
from pathlib import Path
from typing import ClassVar

import structlog

from ..console import Console
from ..driver import LaunchRequest, StartFailed, ended_on_failure
from .boot import MEDIATION_PORT, boot_document
from .disks import write_config, write_volume
from .host_sockets import HostSockets
from .image import Image, load_image
from .processes import MachineRecord, read_record
from .runtime import MachineRuntime
from .settings import MachineSettings
from .socket_dir import SocketDir

log = structlog.get_logger(__name__)
VOLUME = "data.ext4"
CONSOLE = "console.log"


class MachineDriver(ABC):
    """A driver whose machines outlive the host's process. `boot` starts the processes of one machine."""

    name: ClassVar[str]
    passes_settings = True
    sees_host_files = False

    def __init__(
        self, settings: MachineSettings, host_sockets: HostSockets, operator_env: Mapping[str, str] = os.environ
    ) -> None:
        self._settings = settings
        self._host_sockets = host_sockets
        self._operator_env = operator_env

    @abstractmethod
    async def boot(self, runtime: MachineRuntime, image: Image, volume: Path) -> None:
        """Start the processes of the machine. Raises StartFailed and OSError."""

    def allocate_url(self) -> str:
        return ""

    def mediation_address(self, workspace_id: str) -> str | None:
        return str(SocketDir.create_for_workspace(self._settings.run_dir, workspace_id).port_socket(MEDIATION_PORT))

    async def create(self, workspace_id: str, data_dir: Path) -> None:
        SocketDir.create_for_workspace(self._settings.run_dir, workspace_id)
        image = load_image(self._settings.image)
        await write_volume(data_dir / VOLUME, self._settings.volume, image.uid, image.gid)

    async def remove(self, workspace_id: str) -> Path | None:
        await self.end_orphan(workspace_id)
        return self._socket_dir(workspace_id).folder

    async def start(self, launch: LaunchRequest) -> MachineRuntime:
        settings = self._settings
        image = load_image(self._settings.image)
        await self.end_orphan(launch.id)
        record = MachineRecord.empty(self.name, launch.id)
        runtime = self._runtime(record, launch.data_dir)
        runtime.socket_dir.clear()
        document = boot_document(launch, image, self._operator_env, settings.stop_grace)
        async with ended_on_failure(runtime):
            write_config(runtime.socket_dir.config, document)
            await self.open_sockets(launch.id)
            await self.boot(runtime, image, launch.data_dir / VOLUME)
            await runtime.wait_until_booted()
        return runtime

    # ---------------------------------------------------------------- machines of an earlier process of the host

    async def find_orphans(self) -> Set[str]:
        return await asyncio.to_thread(self._find_workspaces)

    async def open_sockets(self, workspace_id: str) -> None:
        await self._host_sockets.open(self._socket_dir(workspace_id))

    async def adopt(self, workspace_id: str, data_dir: Path) -> MachineRuntime | None:
        runtime = await self._find_runtime(workspace_id, data_dir)
        if runtime is None:
            await self._host_sockets.close(self._socket_dir(workspace_id))
            return None
        if not runtime.adopt_processes():
            log.warning("machine_not_complete", workspace=workspace_id)
            await runtime.stop(at_once=True)
            return None
        async with ended_on_failure(runtime):
            await self.open_sockets(workspace_id)
            await runtime.follow_console()
            await runtime.wait_until_ready()
        return runtime

    async def end_orphan(self, workspace_id: str) -> None:
        unused = self._socket_dir(workspace_id).folder  # nothing is written to its console any more
        runtime = await self._find_runtime(workspace_id, unused)
        if runtime is not None:
            runtime.adopt_processes()
            await runtime.stop(at_once=True)

    # ---------------------------------------------------------------- parts

    def _socket_dir(self, workspace_id: str) -> SocketDir:
        return SocketDir.for_workspace(self._settings.run_dir, workspace_id)

    def _runtime(self, record: MachineRecord, data_dir: Path) -> MachineRuntime:
        socket_dir = self._socket_dir(record.workspace)
        return MachineRuntime(self._settings, socket_dir, self._host_sockets, Console(data_dir / CONSOLE), record)

    async def _find_runtime(self, workspace_id: str, data_dir: Path) -> MachineRuntime | None:
        """Return the machine on record, whether it still runs or not, or None. Raises StartFailed."""
        record = await asyncio.to_thread(read_record, self._socket_dir(workspace_id).folder)
        return self._runtime(record, data_dir) if record is not None and record.driver == self.name else None

    def _find_workspaces(self) -> Set[str]:
        found: set[str] = set()
        for folder in self._settings.run_dir.glob("*/"):
            try:
                record = read_record(folder)
            except StartFailed as error:
                log.error("machine_not_known", why=str(error))
                continue
            if record is not None and record.driver == self.name:
                found.add(record.workspace)
        return found
