"""Listeners that nobody may reach. What they hear is kept, and who connects gets a descriptor or an answer."""

from __future__ import annotations

import array
import os
import selectors
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from .container import ADDRESSES

PORT = 18080
ABSTRACT = "\0redteam-host"
SOCKET = Path("/run/host.sock")
ANSWER = b"HTTP/1.0 200 OK\r\nContent-Length: 18\r\n\r\nthe canary answers"

Handler = Callable[[socket.socket], None]


class Canaries:
    """A thread that listens wherever a command has no business. `heard` is all that came, by listener."""

    def __init__(self, prize: Path) -> None:
        """`prize` is the file that is handed, open, to everybody who comes to a unix socket."""
        self._prize = prize
        self._heard: list[tuple[str, bytes]] = []
        self._selector = selectors.DefaultSelector()
        self._open = ExitStack()
        self._wake, self._woken = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name="canaries", daemon=True)

    def __enter__(self) -> Self:
        for name, listener in self._listeners():
            self._open.enter_context(listener)
            listener.setblocking(False)
            stream = listener.type == socket.SOCK_STREAM
            self._watch(name, listener, self._accept(name) if stream else self._datagram(name))
        self._selector.register(self._woken, selectors.EVENT_READ, None)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._wake.send(b"x")
        self._thread.join(5)
        self._open.close()
        self._selector.close()
        self._wake.close()
        self._woken.close()

    def heard(self, text: str, listener: str = "") -> str:
        """The first listener whose name begins so and that heard the text; empty when none did."""
        wanted = text.encode()
        return next((name for name, data in list(self._heard) if name.startswith(listener) and wanted in data), "")

    @staticmethod
    def _listeners() -> Iterator[tuple[str, socket.socket]]:
        for address in ("127.0.0.1", *ADDRESSES):
            yield f"tcp {address}", _bound(socket.AF_INET, (address, PORT if address == "127.0.0.1" else 80))
        yield "tcp ::1", _bound(socket.AF_INET6, ("::1", PORT))
        yield "unix abstract", _bound(socket.AF_UNIX, ABSTRACT)
        yield "unix path", _bound(socket.AF_UNIX, str(SOCKET))
        SOCKET.chmod(0o666)
        yield "dns", _bound(socket.AF_INET, ("10.0.0.5", 53), socket.SOCK_DGRAM)
        yield "icmp", socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)

    def _watch(self, name: str, sock: socket.socket, handler: Handler) -> None:
        self._selector.register(sock, selectors.EVENT_READ, handler)

    def _accept(self, name: str) -> Handler:
        def accept(listener: socket.socket) -> None:
            connection, _ = listener.accept()
            self._open.enter_context(connection)
            connection.setblocking(False)
            self._heard.append((name, b"connected"))
            if name.startswith("unix"):
                self._hand_over(connection)
            self._watch(name, connection, self._talk(name))

        return accept

    def _talk(self, name: str) -> Handler:
        def talk(connection: socket.socket) -> None:
            with suppress(BlockingIOError):
                try:
                    data = connection.recv(65536)
                    if data:
                        self._heard.append((name, data))
                        connection.sendall(ANSWER)
                except ConnectionError:
                    data = b""
                if not data:
                    self._selector.unregister(connection)
                    connection.close()

        return talk

    def _datagram(self, name: str) -> Handler:
        def take(sock: socket.socket) -> None:
            with suppress(BlockingIOError):
                self._heard.append((name, sock.recv(65536)))

        return take

    def _hand_over(self, connection: socket.socket) -> None:
        descriptor = os.open(self._prize, os.O_RDONLY)
        try:
            rights = array.array("i", [descriptor])
            connection.sendmsg([b"take this"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        finally:
            os.close(descriptor)

    def _run(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.data is None:
                    return
                with suppress(OSError):
                    key.data(key.fileobj)


def _bound(family: int, address: tuple[str, int] | str, kind: int = socket.SOCK_STREAM) -> socket.socket:
    sock = socket.socket(family, kind)
    if family != socket.AF_UNIX:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(address)
    if kind == socket.SOCK_STREAM:
        sock.listen(64)
    return sock
