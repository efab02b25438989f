"""The sockets by which one machine reaches the host. They are open while it runs, and closed to cut it off."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Protocol

from agent_common.net import Endpoint

from .boot import EGRESS_PORT, MESH_PORT
from .socket_dir import SocketDir


class SocketOpener(Protocol):
    """Opens and closes listening sockets of one of the host's servers."""

    async def open(self, endpoint: Endpoint, *, mode: int = ...) -> Endpoint: ...

    async def close(self, endpoint: Endpoint, *, abruptly: bool = ...) -> None: ...


FindOpener = Callable[[], SocketOpener | None]
"""Returns the opener of a server, or None if the host does not run that server."""


def _no_opener() -> SocketOpener | None:
    return None


class HostSockets:
    """The sockets of a machine: to the mesh, and to the forward proxy if the host runs one."""

    def __init__(self, mesh: FindOpener = _no_opener, egress: FindOpener = _no_opener) -> None:
        self._openers = {MESH_PORT: mesh, EGRESS_PORT: egress}
        self._open: set[Endpoint] = set()

    async def open(self, socket_dir: SocketDir) -> None:
        """Open the machine's sockets; those that are open stay. Raises OSError, naming the address, if one cannot be
        opened."""
        for port, find in self._openers.items():
            endpoint = socket_dir.port_socket(port)
            if endpoint not in self._open and (opener := find()) is not None:
                await opener.open(endpoint, mode=0o600)
                self._open.add(endpoint)

    async def close(self, socket_dir: SocketDir, *, abruptly: bool = False) -> None:
        """Close all sockets, even if closing one fails. Idempotent. `abruptly`: abort the connections on them."""
        async with AsyncExitStack() as stack:
            for port, find in self._openers.items():
                endpoint = socket_dir.port_socket(port)
                self._open.discard(endpoint)
                if (opener := find()) is not None:
                    stack.push_async_callback(opener.close, endpoint, abruptly=abruptly)
