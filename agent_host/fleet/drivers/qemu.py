"""Run runtimes in microVMs of QEMU: a q35 machine without a network card, with vsock from our own user-space
process."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

import structlog

from ..driver import StartFailed
from ..machine import (
    ASK_SECONDS,
    EGRESS_PORT,
    GUEST_CID,
    MEDIATION_PORT,
    MESH_PORT,
    HostSockets,
    Image,
    Jail,
    MachineDriver,
    MachineRuntime,
    MachineSettings,
    SocketDir,
    jail_of,
    with_device,
)
from ..machine.kvm_probe import Accel, KvmProbe
from ..vsock import backend_command as vsock_command

log = structlog.get_logger(__name__)
QEMU = "qemu-system-x86_64"
KVM = Path("/dev/kvm")
_POLL_SECONDS = 0.01


class QemuDriver(MachineDriver):
    name = "qemu"

    def __init__(
        self,
        settings: MachineSettings,
        host_sockets: HostSockets,
        *,
        accel: Literal["auto", "kvm", "tcg"] = "auto",
        operator_env: Mapping[str, str] = os.environ,
    ) -> None:
        super().__init__(settings, host_sockets, operator_env)
        self._accel: Literal["auto", "kvm", "tcg"] = accel
        self._kvm_probe = KvmProbe(settings.run_dir / "kvm.json")

    async def boot(self, runtime: MachineRuntime, image: Image, volume: Path) -> None:
        qemu = shutil.which(QEMU)
        if qemu is None:
            raise StartFailed(f"there is no {QEMU}; install qemu-system-x86")
        accel = await self._choose_accel(qemu, image)
        jail = choose_jail(runtime.socket_dir, accel)
        await start_vsock_backend(runtime, jail)
        with open_files(image, runtime.socket_dir, volume) as files:
            await runtime.follow_console()
            command = qemu_command(qemu, accel, files, self._settings.memory)
            await runtime.spawn("the machine", command, output=asyncio.subprocess.PIPE, jail=jail, files=files)

    async def open_sockets(self, workspace_id: str) -> None:
        """Open the host's sockets, and let the machine's own user connect to them."""
        await super().open_sockets(workspace_id)
        socket_dir = SocketDir.for_workspace(self._settings.run_dir, workspace_id)
        if (jail := jail_of(socket_dir)) is not None:
            ports = (MEDIATION_PORT, MESH_PORT, EGRESS_PORT)
            await asyncio.to_thread(socket_dir.grant_access, jail.uid, jail.uid, ports)

    async def _choose_accel(self, qemu: str, image: Image) -> Accel:
        if self._accel == "auto":
            return await self._kvm_probe.choose_accel(qemu, image.kernel, image.initrd)
        return self._accel


def choose_jail(socket_dir: SocketDir, accel: Accel) -> Jail | None:
    """Return the user that runs the machine's processes, or None for the host's own user."""
    jail = jail_of(socket_dir)
    if jail is not None and accel == "kvm" and (jail := with_device(jail, KVM)) is None:
        log.warning("machine_runs_as_root", why=f"only root may use {KVM}; give a group access to it")
    return jail


async def start_vsock_backend(runtime: MachineRuntime, jail: Jail | None) -> None:
    """Start the vsock backend of a machine, and return once its sockets exist. Raises StartFailed if it fails."""
    socket_dir = runtime.socket_dir
    command = vsock_command(socket_dir.monitor, GUEST_CID, socket_dir.uds, jail.uid if jail else None)
    process = await runtime.spawn("the vsock backend", command, output=asyncio.subprocess.DEVNULL)
    deadline = time.monotonic() + ASK_SECONDS
    while not socket_dir.uds.exists():
        if not process.running or time.monotonic() > deadline:
            raise StartFailed("the vsock backend did not start")
        await asyncio.sleep(_POLL_SECONDS)


class QemuFiles(NamedTuple):
    """File descriptors of all host files that QEMU uses, so that it needs no access to any path."""

    kernel: int
    initrd: int
    root: int
    config: int
    volume: int
    volume_read: int
    """The volume opened read-only as well, because QEMU opens it twice."""
    monitor: int
    """A socket that is connected to the vsock backend."""
    console: int
    """A socket that listens for the host, which may be another process of the host later."""


@contextmanager
def open_files(image: Image, socket_dir: SocketDir, volume: Path) -> Generator[QemuFiles]:
    """Open all files, and close them at the end of the block. Raises OSError if one cannot be opened."""
    with ExitStack() as stack:

        def handle(path: Path, flags: int = os.O_RDONLY) -> int:
            made = os.open(path, flags | os.O_CLOEXEC)
            stack.callback(os.close, made)
            return made

        volumes = (handle(volume, os.O_RDWR | os.O_NOFOLLOW), handle(volume, os.O_NOFOLLOW))
        monitor, console = (stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(2))
        monitor.settimeout(ASK_SECONDS)
        monitor.connect(str(socket_dir.monitor))
        monitor.setblocking(True)
        console.bind(str(socket_dir.console))
        socket_dir.console.chmod(0o600)
        console.listen()
        disks = (handle(image.root), handle(socket_dir.config), *volumes)
        yield QemuFiles(handle(image.kernel), handle(image.initrd), *disks, monitor.fileno(), console.fileno())


def qemu_command(qemu: str, accel: Accel, files: QemuFiles, memory: int) -> tuple[str, ...]:
    """Return the command: no network card, no monitor console, only the listed devices, and QEMU's own sandbox on."""
    line = "console=ttyS0 quiet reboot=t panic=-1 random.trust_cpu=on"
    disks = (((files.root,), "on"), ((files.config,), "on"), ((files.volume, files.volume_read), "off"))
    drives = [part for number, (handles, fixed) in enumerate(disks) for part in _disk_arguments(number, handles, fixed)]
    return (
        *(qemu, "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-monitor", "none"),
        *("-M", f"q35,accel={accel},memory-backend=ram,usb=off,sata=off,smbus=off,vmport=off,graphics=off"),
        *("-cpu", "host" if accel == "kvm" else "max", "-smp", "1", "-m", str(memory)),
        *("-object", f"memory-backend-memfd,id=ram,size={memory}M,share=on,seal=on"),
        *("-kernel", f"/proc/self/fd/{files.kernel}", "-initrd", f"/proc/self/fd/{files.initrd}"),
        *("-append", line if accel == "kvm" else f"{line} mitigations=off"),  # an emulated processor does not speculate
        *("-chardev", f"socket,id=console,fd={files.console},server=on,wait=off", "-serial", "chardev:console"),
        *drives,
        *("-chardev", f"socket,id=vsock,fd={files.monitor}"),
        *("-device", "vhost-user-vsock-pci,chardev=vsock"),
        *("-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"),
    )


def _disk_arguments(number: int, handles: Sequence[int], fixed: str) -> tuple[str, ...]:
    given = [part for handle in handles for part in ("-add-fd", f"fd={handle},set={number}")]
    drive = f"if=none,id=disk{number},format=raw,file=/dev/fdset/{number},read-only={fixed}"
    device = f"virtio-blk-pci,drive=disk{number},addr={0x10 + number:#x}"
    return (*given, "-drive", drive, "-device", device)
