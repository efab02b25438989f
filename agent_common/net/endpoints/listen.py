"""Open listening sockets: a TCP port, a unix socket with its file, or a vsock port."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import stat
import time
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path

from .connect import as_unix_socket, create_socket, describe_error, socket_address
from .endpoint import Endpoint, Tcp, Unix, Vsock

STALL_MS = 60_000
"""How long sent bytes may stay unacknowledged, or the peer's window closed, before the kernel closes a connection."""
UNIX_MODE = 0o660
BACKLOG = 2048
_LOCK_SECONDS = 2.0
_FIRST_USER_PORT = 1024
_LOOPBACK_4 = "127.0.0.1"
_LOOPBACK_6 = "::1"


@dataclass(slots=True)
class ListeningSocket:
    """A listening socket, and its file if it has one. `close` removes both."""

    endpoint: Endpoint
    """The bound address, with the actual port."""
    sock: socket.socket
    """The socket. A vsock socket is wrapped as AF_UNIX (see `connect`)."""
    _file: tuple[int, int] | None = field(default=None, repr=False)

    def close(self) -> None:
        """Close the socket and remove its file. Idempotent."""
        self.unlink()
        self.sock.close()

    def unlink(self) -> None:
        """Remove the socket's file. A file that another program has put in its place stays."""
        if isinstance(self.endpoint, Unix) and self._file is not None:
            with contextlib.suppress(OSError):
                found = os.lstat(self.endpoint.path)
                if (found.st_dev, found.st_ino) == self._file:
                    os.unlink(self.endpoint.path)
        self._file = None

    def __enter__(self) -> ListeningSocket:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def listen_at(endpoint: Endpoint, *, mode: int = UNIX_MODE, backlog: int = BACKLOG) -> ListeningSocket:
    """Listen on an endpoint. Connections queue until they are accepted. May block for 2 s.

    A stale socket file is replaced; a file that is not a socket, or on which a server answers, is not.
    Raises OSError that names the endpoint, with EADDRINUSE if another server listens on it.
    """
    try:
        match endpoint:
            case Tcp():
                bound = bind_tcp_socket(endpoint.host, endpoint.port)
                bound.listen(backlog)
                return ListeningSocket(Tcp(endpoint.host, bound.getsockname()[1]), bound)
            case Vsock():
                return _listen_vsock(endpoint, backlog)
            case Unix():
                with _folder_lock(Path(endpoint.path).parent):
                    return _listen_unix(endpoint, mode, backlog)
    except OSError as error:
        raise describe_error(error, endpoint) from error


def bind_tcp_socket(host: str, port: int) -> socket.socket:
    """Return a bound TCP socket. Raises OSError, for example if the port is in use."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, STALL_MS)  # accepted sockets inherit it
        bound.bind((host, port))
    except OSError:
        bound.close()
        raise
    return bound


def bind_other_loopback(bound: socket.socket) -> socket.socket | None:
    """Return a socket that is bound to `::1` with the port of one on 127.0.0.1, because `localhost` may mean either.

    None if the first is not on 127.0.0.1, or the second cannot be had.
    """
    if bound.family != socket.AF_INET or bound.getsockname()[0] != _LOOPBACK_4:
        return None
    try:
        return bind_tcp_socket(_LOOPBACK_6, bound.getsockname()[1])
    except OSError:  # no IPv6 here, or another program has the port
        return None


def _listen_vsock(endpoint: Vsock, backlog: int) -> ListeningSocket:
    with create_socket(endpoint) as opened:
        try:
            opened.bind(socket_address(endpoint))
        except PermissionError as error:
            raise OSError(error.errno, f"only root may use ports below {_FIRST_USER_PORT}; set another") from error
        opened.listen(backlog)
        port = opened.getsockname()[1]
        return ListeningSocket(Vsock(endpoint.cid, port), as_unix_socket(opened))


def _listen_unix(endpoint: Unix, mode: int, backlog: int) -> ListeningSocket:
    """Create the socket file. The caller must hold the folder's lock: two programs at a time would each see the other's
    file as stale."""
    _remove_stale_socket(endpoint)
    opened = create_socket(endpoint)
    try:
        opened.bind(endpoint.path)
        file = _set_mode(endpoint.path, mode)
        opened.listen(backlog)  # until now no client could connect
    except BaseException:
        opened.close()
        raise
    return ListeningSocket(endpoint, opened, file)


def _remove_stale_socket(endpoint: Unix) -> None:
    """Remove a stale socket file. Raises OSError if a server still answers on it or the path is not a socket."""
    try:
        found = os.lstat(endpoint.path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise FileExistsError(errno.ENOTSOCK, "the file is not a socket; move it away or choose another path")
    with create_socket(endpoint) as probe:
        code = probe.connect_ex(endpoint.path)
    if code != errno.ECONNREFUSED:  # a full queue has an owner, too
        raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
    os.unlink(endpoint.path)


def _set_mode(path: str, mode: int) -> tuple[int, int]:
    """Set the mode of the new socket file, and return its device and inode.

    It is set through a handle, so that another user of the folder cannot redirect the change to a different file.
    """
    handle = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(handle)
        if not stat.S_ISSOCK(found.st_mode):
            raise OSError(errno.ENOTSOCK, "another program is changing this folder; choose another one")
        os.chmod(f"/proc/self/fd/{handle}", mode)
        return found.st_dev, found.st_ino
    finally:
        os.close(handle)


@contextlib.contextmanager
def _folder_lock(folder: Path) -> Generator[None]:
    """Lock the folder, so that one program at a time creates sockets in it. Raises OSError if the folder does not
    exist, or if another program holds the lock too long."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise OSError(errno.ENOTDIR, f"there is no folder {folder}; make it first") from error
    try:
        deadline = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise OSError(errno.EBUSY, f"another program holds the lock of {folder}") from None
                time.sleep(0.02)
        yield
    finally:
        os.close(handle)
