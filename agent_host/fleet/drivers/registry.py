"""Choose the drivers of this host from its settings. The first one is the default."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Collection
from pathlib import Path

from ...errors import StartError
from ...settings import HostSettings
from ..driver import Driver
from ..machine import HostSockets, MachineSettings, load_image
from .container import ContainerDriver, ContainerSettings
from .external import EXTERNAL, ExternalDriver
from .firecracker import FirecrackerDriver
from .microagent import MicroagentDriver
from .process import ProcessDriver
from .qemu import QemuDriver


def drivers_of(
    settings: HostSettings, host_sockets: HostSockets, *, withheld: Collection[str] = ()
) -> dict[str, Driver]:
    """Return the drivers by name. `withheld`: variables with keys that no runtime may get. Raises StartError if a
    setting names something that does not exist."""
    process = ProcessDriver(settings.start_timeout, settings.stop_grace, withheld=withheld)
    found: dict[str, Driver] = {"process": process}
    run_dir = settings.data_dir / "vm"
    if settings.vm_image is not None:
        load_image(settings.vm_image)
        machine = _machine(settings, settings.vm_image, run_dir)
        found["qemu"] = QemuDriver(machine, host_sockets, accel=settings.vm_accel)
        if settings.firecracker is not None:
            found["firecracker"] = FirecrackerDriver(machine, host_sockets, settings.firecracker)
    if settings.container_image is not None:
        found["container"] = ContainerDriver(_container(settings, settings.container_image, run_dir), host_sockets)
    if settings.microagent is not None:
        found["microagent"] = MicroagentDriver(_words("MESH_MICROAGENT", settings.microagent), settings.start_timeout)
    return {**found, EXTERNAL: ExternalDriver()}


def _machine(settings: HostSettings, image: Path, run_dir: Path) -> MachineSettings:
    return MachineSettings(
        image=image,
        run_dir=run_dir,
        start_timeout=settings.start_timeout,
        stop_grace=settings.stop_grace,
        memory=settings.vm_memory,
        volume=settings.vm_volume,
        outlives_host=settings.restore,
    )


def _container(settings: HostSettings, image: str, run_dir: Path) -> ContainerSettings:
    return ContainerSettings(
        engine=_engine(settings.container_engine),
        image=image,
        run_dir=run_dir,
        start_timeout=settings.start_timeout,
        stop_grace=settings.stop_grace,
        memory=settings.vm_memory,
        options=_words("MESH_CONTAINER_OPTIONS", settings.container_options or ""),
    )


def _engine(given: str | None) -> tuple[str, ...]:
    if given is not None:
        return _words("MESH_CONTAINER_ENGINE", given)
    for name in ("podman", "docker"):
        if shutil.which(name):
            return (name,)
    raise StartError("MESH_CONTAINER_IMAGE: there is neither podman nor docker; install one or set another engine")


def _words(setting: str, given: str) -> tuple[str, ...]:
    """Split a setting into words as a shell would. Raises StartError if its quotes do not match."""
    try:
        return tuple(shlex.split(given))
    except ValueError as error:
        raise StartError(f"{setting}: {error} (is {given!r})") from error
