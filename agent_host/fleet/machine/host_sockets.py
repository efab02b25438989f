"""The ways by which a machine reaches the host: sockets of its own, open while it runs and closed when it is cut."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Protocol

from agent_common.net import Endpoint

from .boot import EGRESS_PORT, MESH_PORT
from .socket_dir import SocketDir


class SocketOpener(Protocol):
    """What of the host's doors is needed here."""

    async def open(self, endpoint: Endpoint, *, mode: int = ...) -> Endpoint: ...

    async def close(self, endpoint: Endpoint, *, abruptly: bool = ...) -> None: ...


FindOpener = Callable[[], SocketOpener | None]
"""The doors once the host serves; none: it has no such face."""


def _no_opener() -> SocketOpener | None:
    return None


class HostSockets:
    """Of one machine: to the mesh, and to the web where the host lets agents out."""

    def __init__(self, mesh: FindOpener = _no_opener, egress: FindOpener = _no_opener) -> None:
        self._openers = {MESH_PORT: mesh, EGRESS_PORT: egress}

    async def open(self, socket_dir: SocketDir) -> None:
        """Raises OSError that names the address."""
        for port, find in self._openers.items():
            if (doors := find()) is not None:
                await doors.open(socket_dir.port_socket(port), mode=0o600)

    async def close(self, socket_dir: SocketDir, *, abruptly: bool = False) -> None:
        """All of them, whatever becomes of one; `abruptly`: who is in there is cut off. Again is a no-op."""
        async with AsyncExitStack() as every:
            for port, find in self._openers.items():
                if (doors := find()) is not None:
                    every.push_async_callback(doors.close, socket_dir.port_socket(port), abruptly=abruptly)
