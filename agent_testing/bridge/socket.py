"""The guest's side: a listening socket that may be shut and opened again at the same address."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from agent_common.net import Endpoint, ListeningSocket, listen_at

from .sockets import set_tcp_options

_ACCEPTS_PER_TURN = 64
"""Connections that are accepted before others get their turn."""
_SHORT_OF_FILES_SECONDS = 0.05


class BridgeSocket:
    """`on_accept` gets each accepted socket, non-blocking. All calls belong to one event loop and none waits."""

    def __init__(self, endpoint: Endpoint, on_accept: Callable[[socket.socket], None]) -> None:
        self.endpoint = endpoint
        """With the port that was chosen, once it was open."""
        self._on_accept = on_accept
        self._listening: ListeningSocket | None = None
        self._resume_timer: asyncio.TimerHandle | None = None

    @property
    def is_open(self) -> bool:
        return self._listening is not None

    def open(self) -> None:
        """Listens. Raises OSError, for example when the port is in use."""
        if self._listening is None:
            self._listening = listen_at(self.endpoint)
            self.endpoint = self._listening.endpoint
            self._listening.sock.setblocking(False)
            asyncio.get_running_loop().add_reader(self._listening.sock, self._accept)

    def close(self) -> None:
        """Stops listening and takes the socket off the disk; connections that were not accepted yet are reset."""
        if self._resume_timer:
            self._resume_timer.cancel()
        if self._listening is None:
            return
        asyncio.get_running_loop().remove_reader(self._listening.sock)
        self._listening.close()
        self._listening = None

    def _accept(self) -> None:
        for _ in range(_ACCEPTS_PER_TURN):
            if self._listening is None:
                return
            try:
                guest, _ = self._listening.sock.accept()
            except (BlockingIOError, ConnectionAbortedError, InterruptedError):
                return
            except OSError:  # no descriptors left: the connection waits, and would wake us without end
                self._pause_accepting()
                return
            guest.setblocking(False)
            set_tcp_options(guest)
            self._on_accept(guest)

    def _pause_accepting(self) -> None:
        loop = asyncio.get_running_loop()
        if self._listening is not None:
            loop.remove_reader(self._listening.sock)
            self._resume_timer = loop.call_later(_SHORT_OF_FILES_SECONDS, self._resume_accepting)

    def _resume_accepting(self) -> None:
        if self._listening is not None:
            asyncio.get_running_loop().add_reader(self._listening.sock, self._accept)
