"""The folder of one machine's sockets. Its path is short, because the kernel limits a socket's path to 107 bytes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agent_common.net import Unix

from ...errors import StartError

AGENT_SOCKET_NAME = "agent.sock"
_LONGEST_NAME = len("/v.sock_4294967295")
_LONGEST_PATH = 107


@dataclass(frozen=True, slots=True)
class SocketDir:
    """The folder and the names of its sockets, as Firecracker names them: port P of the host is `{uds}_P`."""

    folder: Path

    @classmethod
    def for_workspace(cls, root: Path, workspace_id: str) -> SocketDir:
        """Return the folder for a workspace, always the same for one id. Raises StartError if the path is too long."""
        socket_dir = cls(root / hashlib.sha256(workspace_id.encode()).hexdigest()[:12])
        if len(os.fsencode(socket_dir.folder)) + _LONGEST_NAME > _LONGEST_PATH:
            raise StartError(f"MESH_DATA_DIR: {root} is too long for the sockets of a microVM; choose a shorter path")
        return socket_dir

    @classmethod
    def create_for_workspace(cls, root: Path, workspace_id: str) -> SocketDir:
        """Return the workspace's folder, and create it. The listener uses it before there is a machine."""
        socket_dir = cls.for_workspace(root, workspace_id)
        socket_dir.create()
        return socket_dir

    @property
    def uds(self) -> Path:
        return self.folder / "v.sock"

    @property
    def monitor(self) -> Path:
        """The socket between the vsock backend and the machine's monitor; for Firecracker, its API socket."""
        return self.folder / "m.sock"

    @property
    def agent_api(self) -> Path:
        """The socket of a container's agent, in a folder of its own, because the agent writes to that folder."""
        return self.folder / "api" / AGENT_SOCKET_NAME

    @property
    def console(self) -> Path:
        """The socket on which the machine's monitor sends the guest's output."""
        return self.folder / "c.sock"

    @property
    def config(self) -> Path:
        return self.folder / "config.img"

    def port_socket(self, port: int) -> Unix:
        return Unix(f"{self.uds}_{port}")

    def create(self) -> None:
        """Create the folder, accessible only to the host's user."""
        self.folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder.mkdir(mode=0o700, exist_ok=True)

    def grant_access(self, uid: int, gid: int, ports: Sequence[int]) -> None:
        """Let the user enter the folder and connect to its open sockets. The parent folder stays accessible only to the
        host's user."""
        self.folder.chmod(0o711)
        for port in ports:
            path = self.port_socket(port).path
            if os.geteuid() == 0 and os.path.exists(path):
                os.chown(path, uid, gid, follow_symlinks=False)

    def clear(self) -> None:
        """Delete the files of one run of the machine. The sockets of the host's servers are closed by `HostSockets`."""
        for path in (self.uds, self.monitor, self.console, self.config):
            path.unlink(missing_ok=True)
