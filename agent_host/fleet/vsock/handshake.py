"""Accept programs of the host on the machine's socket: they send `CONNECT <port>`, then become streams."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from functools import partial
from itertools import cycle

from .loop import READ, LoopTimer, PollLoop
from .packet import U32
from .stream import Key, VsockStream

MAX_CLIENTS = 64
"""Most programs that may be connected at a time; more are refused."""
GREETING_SECONDS = 5.0
FIRST_PORT = 1 << 30
_LONGEST = len(b"CONNECT 4294967295\r\n")
_CONNECT = re.compile(rb"CONNECT ([0-9]{1,10})\r?\n")


class HostHandshake:
    """Reads the first line of each program. `open_stream` then turns its socket into a stream."""

    def __init__(
        self, loop: PollLoop, is_used: Callable[[Key], bool], open_stream: Callable[[socket.socket, Key], VsockStream]
    ) -> None:
        self._loop = loop
        self._is_used = is_used
        self._open_stream = open_stream
        self._ports = cycle(range(FIRST_PORT, 2 * FIRST_PORT))
        self._greeting: dict[socket.socket, LoopTimer] = {}
        self._streams: set[VsockStream] = set()

    def accept(self, sock: socket.socket) -> None:
        """Take over a new connection, or close it if there are too many."""
        if len(self._greeting) + len(self._streams) >= MAX_CLIENTS:
            sock.close()
            return
        sock.setblocking(False)
        self._greeting[sock] = self._loop.call_later(GREETING_SECONDS, partial(self._drop, sock))
        self._loop.watch(sock.fileno(), READ, partial(self._read_line, sock, bytearray()))

    def discard(self, stream: VsockStream) -> bool:
        """Stop counting a stream. Returns whether a program of the host had opened it."""
        mine = stream in self._streams
        self._streams.discard(stream)
        return mine

    def _read_line(self, sock: socket.socket, line: bytearray, _events: int) -> None:
        """Read the first line and not a byte more, because what follows is for the guest."""
        try:
            while not line.endswith(b"\n"):
                byte = sock.recv(1)
                if not byte or len(line) >= _LONGEST:
                    self._drop(sock)
                    return
                line += byte
        except BlockingIOError:
            return
        except OSError:
            self._drop(sock)
            return
        match = _CONNECT.fullmatch(line)
        if match is None or int(match[1]) > U32:
            self._drop(sock)
        else:
            self._connect(sock, int(match[1]))

    def _connect(self, sock: socket.socket, port: int) -> None:
        self._greeting.pop(sock).cancel()
        self._loop.forget(sock.fileno())
        key = next(key for key in ((port, number) for number in self._ports) if not self._is_used(key))
        self._streams.add(self._open_stream(sock, key))

    def _drop(self, sock: socket.socket) -> None:
        self._greeting.pop(sock).cancel()
        self._loop.forget(sock.fileno())
        sock.close()
