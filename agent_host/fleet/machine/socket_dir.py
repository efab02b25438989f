"""The folder of one machine's sockets: short, because the kernel has 107 bytes for a socket's path."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agent_common.net import Unix

from ...errors import StartError

_LONGEST_NAME = len("/v.sock_4294967295")
_LONGEST_PATH = 107


@dataclass(frozen=True, slots=True)
class SocketDir:
    """`uds` is the base of Firecracker's names: a guest that dials port P comes out at `{uds}_P`."""

    folder: Path

    @classmethod
    def for_workspace(cls, root: Path, workspace_id: str) -> SocketDir:
        """The same for the same id, always. Raises StartError when the path is too long for a socket."""
        seat = cls(root / hashlib.sha256(workspace_id.encode()).hexdigest()[:12])
        if len(os.fsencode(seat.folder)) + _LONGEST_NAME > _LONGEST_PATH:
            raise StartError(f"MESH_DATA_DIR: {root} is too long for the sockets of a microVM; take a shorter folder")
        return seat

    @classmethod
    def create_for_workspace(cls, root: Path, workspace_id: str) -> SocketDir:
        """The same, and its folder is there: the listener listens in it before there is a machine."""
        seat = cls.for_workspace(root, workspace_id)
        seat.create()
        return seat

    @property
    def uds(self) -> Path:
        return self.folder / "v.sock"

    @property
    def monitor(self) -> Path:
        """Where the vsock backend and the machine's monitor meet, or where the monitor takes orders."""
        return self.folder / "m.sock"

    @property
    def config(self) -> Path:
        return self.folder / "config.img"

    def port_socket(self, port: int) -> Unix:
        return Unix(f"{self.uds}_{port}")

    def create(self) -> None:
        """For nobody but the host."""
        self.folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder.mkdir(mode=0o700, exist_ok=True)

    def grant_access(self, uid: int, gid: int, ports: Sequence[int]) -> None:
        """That user may pass the folder and connect to the doors that are open; the folder above stays the host's."""
        self.folder.chmod(0o711)
        for port in ports:
            path = self.port_socket(port).path
            if os.geteuid() == 0 and os.path.exists(path):
                os.chown(path, uid, gid, follow_symlinks=False)

    def clear(self) -> None:
        """Takes away what one life of the machine has left; the doors are others' to close."""
        for path in (self.uds, self.monitor, self.config):
            path.unlink(missing_ok=True)
