"""Connect to the unix socket of an agent, in a folder to which the agent writes.

The agent could put a symbolic link there, to a socket that only the host may use. So the socket is opened without
following links, and connected to by its descriptor.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable
from pathlib import Path

from agent_common.net import Unix, connect

from .driver import P


async def connect_agent_socket(path: Path, protocol: Callable[[], P]) -> P:
    """Open a connection, and return its protocol. Raises OSError."""
    handle = await asyncio.to_thread(_open_socket_file, path)
    try:
        return (await connect(protocol, Unix(f"/proc/self/fd/{handle}")))[1]
    finally:
        os.close(handle)


def _open_socket_file(path: Path) -> int:
    """Return a descriptor of the socket's file. Neither the file nor its folder may be a link. Raises OSError."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        handle = os.open(path.name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    finally:
        os.close(folder)
    if stat.S_ISSOCK(os.fstat(handle).st_mode):
        return handle
    os.close(handle)
    raise ConnectionRefusedError(f"{path} is not a socket")
