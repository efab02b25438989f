"""Connect to an endpoint: a TCP port, a unix socket, or a vsock port.

A connected AF_VSOCK socket is re-wrapped as AF_UNIX, because event loops set TCP options on families that they do not
know, which fails, and only read and write unix sockets.
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
    errno.ENODEV: "this machine has no vsock device for it",
    errno.ENETUNREACH: "there is no machine with that context id",
    errno.EHOSTUNREACH: "there is no machine with that context id",
    errno.ECONNRESET: "nothing listens there",
    errno.EADDRNOTAVAIL: "this machine has no such context id",
    errno.EADDRINUSE: "something listens there already",
}


async def connect(
    factory: Callable[[], P], endpoint: Endpoint, seconds: float = CONNECT_SECONDS, *, tls: ssl.SSLContext | None = None
) -> tuple[asyncio.BaseTransport, P]:
    """Connect with the caller's protocol. Raises OSError (or its subclass TimeoutError) that names the endpoint."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(seconds):
        if isinstance(endpoint, Tcp):
            return await loop.create_connection(factory, endpoint.host, endpoint.port, ssl=tls)
        connected = await open_socket(endpoint, seconds)
        try:
            return await loop.create_unix_connection(factory, sock=connected)
        except BaseException:
            connected.close()
            raise


async def open_socket(endpoint: Unix | Vsock, seconds: float = CONNECT_SECONDS) -> socket.socket:
    """Connect, and return the socket as AF_UNIX, for a caller that makes its transport itself. Raises OSError as
    `connect` does."""
    async with asyncio.timeout(seconds):
        try:
            opened = create_socket(endpoint)
            if isinstance(endpoint, Vsock):
                _set_connect_timeout(opened, seconds)
            return await connect_socket(opened, socket_address(endpoint))
        except TimeoutError:
            raise
        except OSError as error:
            raise describe_error(error, endpoint) from error


async def open_endpoint(
    endpoint: Endpoint, seconds: float = CONNECT_SECONDS, *, limit: int = STREAM_BYTES
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect and return a pair of streams. `limit`: most bytes of a line. Raises OSError as `connect` does."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=limit)
    transport, protocol = await connect(lambda: asyncio.StreamReaderProtocol(reader), endpoint, seconds)
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)  # pyright: ignore[reportArgumentType]


def create_socket(endpoint: Unix | Vsock) -> socket.socket:
    """Return a non-blocking socket of the endpoint's family. Raises OSError if this machine does not support it."""
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
    """Re-wrap a socket as AF_UNIX. The socket passed in is detached and must not be used any more."""
    same = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fileno=opened.detach())
    same.setblocking(False)
    return same


def socket_address(endpoint: Unix | Vsock) -> str | tuple[int, int]:
    """Return the address in the form that system calls take."""
    return endpoint.path if isinstance(endpoint, Unix) else (endpoint.cid, endpoint.port)


def describe_error(error: OSError, endpoint: Endpoint) -> OSError:
    """Return the error with the endpoint and a more helpful explanation in its text."""
    why = error.strerror or str(error) or type(error).__name__
    if error.errno and why == os.strerror(error.errno):  # else the text is more specific already
        why = _WHY.get(error.errno, why)
    return OSError(error.errno, f"{endpoint}: {why}")


async def connect_socket(opened: socket.socket, address: str | tuple[int, int] | tuple[str, int]) -> socket.socket:
    """Connect a socket and return it as AF_UNIX; the one passed in must not be used any more.

    Retries while the server's queue is full, so the caller must set a deadline. Raises OSError.
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
    """Wait until the connection is established or has failed."""
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    loop.add_writer(opened.fileno(), lambda: None if done.done() else done.set_result(None))
    try:
        await done
    finally:
        loop.remove_writer(opened.fileno())


def _set_connect_timeout(opened: socket.socket, seconds: float) -> None:
    """Set the kernel's connect timeout, whose default is 2 s."""
    whole = int(seconds)
    wanted = struct.pack("ll", whole, int((seconds - whole) * 1_000_000))
    # For AF_VSOCK, Python accepts only numbers as socket options, so the option is set through another family.
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fileno=os.dup(opened.fileno())) as unnamed:
        unnamed.setsockopt(socket.AF_VSOCK, _VSOCK_CONNECT_TIMEOUT, wanted)


def _vsock_family() -> int:
    family = getattr(socket, "AF_VSOCK", None)
    if family is None:
        raise OSError(errno.EAFNOSUPPORT, _NO_VSOCK)
    return family
