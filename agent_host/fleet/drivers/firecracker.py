"""Run runtimes in microVMs of Firecracker, which implements vsock itself and is controlled over a socket.

Tests check the requests against its published API; no test boots it, because the test machines have no virtualisation.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2

from ..driver import StartFailed
from ..machine import (
    ASK_SECONDS,
    GUEST_CID,
    HostSockets,
    Image,
    MachineDriver,
    MachineRuntime,
    MachineSettings,
    MonitorProcess,
    SocketDir,
    load_image,
)

KERNEL = "vmlinux"
"""The uncompressed kernel, which is the only form that Firecracker boots."""
_BOOT_ARGS = "console=ttyS0 quiet reboot=k panic=-1 random.trust_cpu=on"
_POLL_SECONDS = 0.01
_LONGEST_FAULT = 500


class FirecrackerDriver(MachineDriver):
    name = "firecracker"

    def __init__(
        self,
        settings: MachineSettings,
        host_sockets: HostSockets,
        program: str,
        *,
        operator_env: Mapping[str, str] = os.environ,
    ) -> None:
        super().__init__(settings, host_sockets, operator_env)
        self._program = program

    async def create(self, workspace_id: str, data_dir: Path) -> None:
        image = load_image(self._settings.image)
        if not (image.folder / KERNEL).is_file():
            raise StartFailed(f"MESH_VM_IMAGE: {image.folder} has no {KERNEL}, which Firecracker needs")
        await super().create(workspace_id, data_dir)

    async def boot(self, runtime: MachineRuntime, image: Image, volume: Path) -> None:
        socket_dir = runtime.socket_dir
        command = (self._program, "--api-sock", str(socket_dir.monitor), "--id", socket_dir.folder.name)
        monitor = await runtime.spawn("firecracker", command, output=asyncio.subprocess.PIPE)
        await _wait_for_socket(socket_dir.monitor, monitor, self._settings.start_timeout)
        await send_requests(socket_dir.monitor, boot_requests(image, socket_dir, volume, self._settings.memory))


ApiRequest = tuple[str, str, dict[str, Any]]


def boot_requests(image: Image, socket_dir: SocketDir, volume: Path, memory: int) -> list[ApiRequest]:
    """Return the API requests that configure and start a machine. The guest numbers the disks in their order."""
    disks = [("root", image.root, True), ("config", socket_dir.config, True), ("data", volume, False)]
    boot = {"kernel_image_path": str(image.folder / KERNEL), "initrd_path": str(image.initrd), "boot_args": _BOOT_ARGS}
    return [
        ("PUT", "/machine-config", {"vcpu_count": 1, "mem_size_mib": memory}),
        ("PUT", "/boot-source", boot),
        *(
            (
                "PUT",
                f"/drives/{name}",
                {"drive_id": name, "path_on_host": str(path), "is_root_device": False, "is_read_only": fixed},
            )
            for name, path, fixed in disks
        ),
        ("PUT", "/vsock", {"guest_cid": GUEST_CID, "uds_path": str(socket_dir.uds)}),
        ("PUT", "/actions", {"action_type": "InstanceStart"}),
    ]


async def send_requests(monitor: Path, requests: list[ApiRequest]) -> None:
    """Send the requests one after another. Raises StartFailed with Firecracker's message, and OSError."""
    transport = httpx2.AsyncHTTPTransport(uds=str(monitor))
    async with httpx2.AsyncClient(transport=transport, base_url="http://firecracker", timeout=ASK_SECONDS) as client:
        for method, path, body in requests:
            try:
                answer = await client.request(method, path, json=body)
            except httpx2.TransportError as error:
                raise ConnectionError(f"firecracker does not answer {method} {path}: {error}") from error
            if not answer.is_success:
                fault = answer.text[:_LONGEST_FAULT]
                raise StartFailed(f"firecracker refuses {method} {path}: {answer.status_code} {fault}")


async def _wait_for_socket(path: Path, monitor: MonitorProcess, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not await asyncio.to_thread(path.exists):
        if not monitor.running or time.monotonic() > deadline:
            raise StartFailed("firecracker did not open its API socket")
        await asyncio.sleep(_POLL_SECONDS)
