"""The parts that microVMs of all drivers share: the folder of sockets, the disks, the console, and the guest's init."""

from .boot import CONTROL_PORT, EGRESS_PORT, GUEST_CID, MEDIATION_PORT, MESH_PORT, boot_document
from .disks import write_config, write_volume
from .driver import MachineDriver
from .host_sockets import HostSockets
from .image import Image, load_image
from .jail import Jail, jail_of, with_device
from .processes import MachineRecord, MonitorProcess
from .runtime import ASK_SECONDS, MachineRuntime
from .settings import MachineSettings
from .socket_dir import AGENT_SOCKET_NAME, SocketDir

__all__ = [
    "AGENT_SOCKET_NAME",
    "ASK_SECONDS",
    "CONTROL_PORT",
    "EGRESS_PORT",
    "GUEST_CID",
    "MEDIATION_PORT",
    "MESH_PORT",
    "HostSockets",
    "Image",
    "Jail",
    "MachineDriver",
    "MachineRecord",
    "MachineRuntime",
    "MachineSettings",
    "MonitorProcess",
    "SocketDir",
    "boot_document",
    "jail_of",
    "load_image",
    "with_device",
    "write_config",
    "write_volume",
]
