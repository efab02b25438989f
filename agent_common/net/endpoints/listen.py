"""Listening sockets: a TCP port, a unix socket with its file, a port over vsock."""

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
"""How long sent bytes may go without an acknowledgement, or meet a peer who takes none, before a connection is dead."""
UNIX_MODE = 0o660
BACKLOG = 2048
_LOCK_SECONDS = 2.0
_FIRST_USER_PORT = 1024


@dataclass(slots=True)
class ListeningSocket:
    """A socket that listens, and the file that leads to it. `close` takes both away."""

    endpoint: Endpoint
    """With the port that it got."""
    sock: socket.socket
    """Of vsock it is called one of AF_UNIX (see `connect`)."""
    _file: tuple[int, int] | None = field(default=None, repr=False)

    def close(self) -> None:
        """Again is a no-op."""
        self.unlink()
        self.sock.close()

    def unlink(self) -> None:
        """Nobody finds the way here any more. A file that somebody else has put in the place of ours stays."""
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
    """Listens from now on: connections wait in the queue until somebody takes them. May wait for 2 s.

    A file that a dead owner has left is replaced; one that somebody answers behind, or that is no socket, is not.
    Raises OSError that names the endpoint, with EADDRINUSE where somebody else listens.
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
    """A bound TCP socket. Raises OSError, for example when the port is in use."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, STALL_MS)  # accepted sockets take it over
        bound.bind((host, port))
    except OSError:
        bound.close()
        raise
    return bound


def _listen_vsock(endpoint: Vsock, backlog: int) -> ListeningSocket:
    with create_socket(endpoint) as opened:
        try:
            opened.bind(socket_address(endpoint))
        except PermissionError as error:
            raise OSError(error.errno, f"ports below {_FIRST_USER_PORT} are for root; take a higher one") from error
        opened.listen(backlog)
        port = opened.getsockname()[1]
        return ListeningSocket(Vsock(endpoint.cid, port), as_unix_socket(opened))


def _listen_unix(endpoint: Unix, mode: int, backlog: int) -> ListeningSocket:
    """Whoever holds the folder's turn makes the file: two at a time would each take the other's for a dead one."""
    _remove_stale_socket(endpoint)
    opened = create_socket(endpoint)
    try:
        opened.bind(endpoint.path)
        file = _set_mode(endpoint.path, mode)
        opened.listen(backlog)  # until here nobody could connect
    except BaseException:
        opened.close()
        raise
    return ListeningSocket(endpoint, opened, file)


def _remove_stale_socket(endpoint: Unix) -> None:
    """Takes away what a dead owner has left. Raises OSError when somebody lives there, or it is something else."""
    try:
        found = os.lstat(endpoint.path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise FileExistsError(errno.ENOTSOCK, "the file there is no socket; move it away or choose another path")
    with create_socket(endpoint) as probe:
        code = probe.connect_ex(endpoint.path)
    if code != errno.ECONNREFUSED:  # also a queue that is full has an owner
        raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
    os.unlink(endpoint.path)


def _set_mode(path: str, mode: int) -> tuple[int, int]:
    """Gives the new file its mode, by a handle: who may write the folder must not turn that on a file of his choice."""
    handle = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(handle)
        if not stat.S_ISSOCK(found.st_mode):
            raise OSError(errno.ENOTSOCK, "somebody else changes this folder; choose one of your own")
        os.chmod(f"/proc/self/fd/{handle}", mode)
        return found.st_dev, found.st_ino
    finally:
        os.close(handle)


@contextlib.contextmanager
def _folder_lock(folder: Path) -> Generator[None]:
    """The folder, for one who makes sockets in it at a time. Raises OSError when it is not there, or taken too long."""
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
