"""Sockets as a bridge needs them: dialled without a deadline, cut in either way, with no timeout of their own."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from typing import Any, Literal

from agent_common.net import Endpoint, Tcp, Unix

How = Literal["rst", "fin"]
"""How a connection ends: reset, or closed. A unix socket knows no reset: there both look like an end, unless bytes of
the peer were left unread."""

_NO_LINGER = struct.pack("ii", 1, 0)
_INET = (socket.AF_INET, socket.AF_INET6)


async def dial(endpoint: Endpoint) -> socket.socket:
    """A connected, non-blocking socket. Raises OSError. There is no deadline but the kernel's own."""
    failure = OSError(f"{endpoint} leads nowhere")
    for family, name in await _candidates(endpoint):
        try:
            return await _connected(family, name)
        except OSError as error:
            failure = error
    raise failure


async def _candidates(endpoint: Endpoint) -> list[tuple[int, Any]]:
    """Family and the kernel's form of each address it may mean."""
    if isinstance(endpoint, Tcp):
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
        return [(family, name) for family, _, _, _, name in found]
    if isinstance(endpoint, Unix):
        return [(socket.AF_UNIX, endpoint.path)]
    if not hasattr(socket, "AF_VSOCK"):
        raise OSError(f"this machine has no vsock for {endpoint}; use a unix or tcp address")
    return [(socket.AF_VSOCK, (endpoint.cid, endpoint.port))]


async def _connected(family: int, name: Any) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, name)
        # A unix socket whose peer's queue is full looks connected here, and a port of this machine that nobody listens
        # on may be dialled from itself.
        if sock.getpeername() == sock.getsockname() and family != socket.AF_UNIX:
            raise ConnectionRefusedError("nobody listens there")
        set_tcp_options(sock)
    except BaseException:
        sock.close()
        raise
    return sock


def set_tcp_options(sock: socket.socket) -> None:
    """Sends what is written without waiting for more, so that a piece stays a piece, and waits for a peer for ever."""
    if sock.family in _INET:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 0)


def hang_up(sock: socket.socket, how: How = "fin") -> None:
    """Closes a socket that nothing waits on any more."""
    if how == "rst" and sock.family in _INET:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    sock.close()


def stop_writing(sock: socket.socket) -> None:
    """The half close; a connection that is gone already needs none."""
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_WR)
