"""Connections to an endpoint, whatever it is: a TCP port, a unix socket, a port over vsock.

A socket of vsock is connected here and then called one of AF_UNIX: event loops set options of TCP on what they do not
know, and fail, while of unix sockets they want nothing but reading and writing.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
import struct
from collections.abc import Callable
from typing import TypeVar

from .endpoint import Endpoint, Tcp, Unix, Vsock

P = TypeVar("P", bound=asyncio.BaseProtocol)
CONNECT_SECONDS = 10.0
STREAM_BYTES = 64 * 1024
_RETRY_SECONDS = 0.02
_NO_VSOCK = "this machine has no vsock (AF_VSOCK)"
_VSOCK_CONNECT_TIMEOUT = 6
"""The kernel's SO_VM_SOCKETS_CONNECT_TIMEOUT."""
_FULL = (errno.EAGAIN, errno.EINTR)
_WHY = {
    errno.ENOENT: "there is no such socket; is the host up?",
    errno.ECONNREFUSED: "nothing listens there",
    errno.EACCES: "this user may not open it",
    errno.ENODEV: "this machine has no vsock device that leads there",
    errno.ENETUNREACH: "there is no machine with that context id",
    errno.EHOSTUNREACH: "there is no machine with that context id",
    errno.ECONNRESET: "nothing listens there",
    errno.EADDRNOTAVAIL: "this machine has no such context id",
    errno.EADDRINUSE: "something listens there already",
}


async def connect(
    factory: Callable[[], P], endpoint: Endpoint, seconds: float = CONNECT_SECONDS, *, tls: ssl.SSLContext | None = None
) -> tuple[asyncio.BaseTransport, P]:
    """A connection with a protocol of the caller's. Raises OSError that names the endpoint; TimeoutError is one."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(seconds):
        if isinstance(endpoint, Tcp):
            return await loop.create_connection(factory, endpoint.host, endpoint.port, ssl=tls)
        try:
            opened = create_socket(endpoint)
            if isinstance(endpoint, Vsock):
                _set_connect_timeout(opened, seconds)
            connected = await connect_socket(opened, socket_address(endpoint))
        except TimeoutError:
            raise
        except OSError as error:
            raise describe_error(error, endpoint) from error
        try:
            return await loop.create_unix_connection(factory, sock=connected)
        except BaseException:
            connected.close()
            raise


async def open_endpoint(
    endpoint: Endpoint, seconds: float = CONNECT_SECONDS, *, limit: int = STREAM_BYTES
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection as a pair of streams; `limit` bounds a line. Raises OSError as `connect` does."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=limit)
    transport, protocol = await connect(lambda: asyncio.StreamReaderProtocol(reader), endpoint, seconds)
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)  # pyright: ignore[reportArgumentType]


def create_socket(endpoint: Unix | Vsock) -> socket.socket:
    """A socket of the right kind that blocks nobody. Raises OSError where the machine has no such kind."""
    family = socket.AF_UNIX if isinstance(endpoint, Unix) else _vsock_family()
    try:
        made = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        if isinstance(endpoint, Vsock) and error.errno in (errno.EAFNOSUPPORT, errno.EPERM, errno.EACCES):
            raise OSError(error.errno, f"{_NO_VSOCK}: is the kernel's module loaded?") from error
        raise
    made.setblocking(False)
    return made


def as_unix_socket(opened: socket.socket) -> socket.socket:
    """The socket under the name of AF_UNIX; the one given is used up."""
    same = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fileno=opened.detach())
    same.setblocking(False)
    return same


def socket_address(endpoint: Unix | Vsock) -> str | tuple[int, int]:
    """As the system calls want it."""
    return endpoint.path if isinstance(endpoint, Unix) else (endpoint.cid, endpoint.port)


def describe_error(error: OSError, endpoint: Endpoint) -> OSError:
    """The error with the endpoint in its text, and what it means there."""
    why = error.strerror or str(error) or type(error).__name__
    if error.errno and why == os.strerror(error.errno):  # else somebody has said it better already
        why = _WHY.get(error.errno, why)
    return OSError(error.errno, f"{endpoint}: {why}")


async def connect_socket(opened: socket.socket, address: str | tuple[int, int] | tuple[str, int]) -> socket.socket:
    """The socket, connected and under the name of AF_UNIX; the one given is used up. A full queue is waited for.

    The caller sets the deadline. Raises OSError.
    """
    try:
        code = opened.connect_ex(address)
        while code in _FULL:
            await asyncio.sleep(_RETRY_SECONDS)
            code = opened.connect_ex(address)
        if code == errno.EINPROGRESS:
            await _wait_writable(opened)
            code = opened.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code == errno.ETIMEDOUT:
            raise TimeoutError(code, "it does not answer")
        if code:
            raise OSError(code, os.strerror(code))
        return as_unix_socket(opened)
    except BaseException:
        opened.close()
        raise


async def _wait_writable(opened: socket.socket) -> None:
    """Until the connection stands or has failed."""
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    loop.add_writer(opened.fileno(), lambda: None if done.done() else done.set_result(None))
    try:
        await done
    finally:
        loop.remove_writer(opened.fileno())


def _set_connect_timeout(opened: socket.socket, seconds: float) -> None:
    """The kernel gives a connection 2 s unless told otherwise."""
    whole = int(seconds)
    wanted = struct.pack("ll", whole, int((seconds - whole) * 1_000_000))
    # Python takes nothing but numbers as options of a socket that it knows to be one of vsock.
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fileno=os.dup(opened.fileno())) as unnamed:
        unnamed.setsockopt(socket.AF_VSOCK, _VSOCK_CONNECT_TIMEOUT, wanted)


def _vsock_family() -> int:
    family = getattr(socket, "AF_VSOCK", None)
    if family is None:
        raise OSError(errno.EAFNOSUPPORT, _NO_VSOCK)
    return family
