"""The backend process of one machine, with a socket for its monitor and one for programs of the host."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path

from .control import Hangup, VhostUserControl
from .device import Device
from .loop import READ, PollLoop
from .ring import RingBroken

_BACKLOG = 64
MONITOR_SECONDS = 30.0
"""Time for the machine's monitor to connect."""


class Backend:
    """Serves two listening sockets, `monitor` and `host`, until the machine's monitor has disconnected."""

    def __init__(
        self, monitor: socket.socket, host: socket.socket, cid: int, uds: str, log: Callable[[str], None]
    ) -> None:
        self.loop = PollLoop()
        self.device = Device(self.loop, cid, uds, log)
        self._monitor = monitor
        self._host = host
        self._cid = cid
        self._log = log
        self._monitor_connection: socket.socket | None = None
        self.ended = False
        """Whether the monitor has disconnected, or has not connected in time. A machine has one monitor in its life."""
        self._monitor_timer = self.loop.call_later(MONITOR_SECONDS, self._end)
        for sock in (monitor, host):
            sock.setblocking(False)
        self.loop.watch(monitor.fileno(), READ, self._accept_monitor)
        self.loop.watch(host.fileno(), READ, self._accept_host_program)

    def run_once(self, timeout: float | None = None) -> None:
        """Wait for events, at most `timeout` seconds, and process them."""
        more = self.device.process_rings()
        try:
            self.loop.run_once(0 if more else timeout)
        except RingBroken as why:
            self.device.fail(why)
        self.device.process_rings()

    def close(self) -> None:
        self._drop_monitor("closed")
        for sock in (self._monitor, self._host):
            self.loop.forget(sock.fileno())
            sock.close()
        self.loop.close()

    def _end(self) -> None:
        self.ended = True

    def _accept_monitor(self, _events: int) -> None:
        """Accept a monitor, and no other after it."""
        try:
            sock, _ = self._monitor.accept()
        except OSError:
            return
        control = VhostUserControl(sock, self.device, self._cid)
        self._monitor_connection = sock
        self._monitor_timer.cancel()
        self.loop.forget(self._monitor.fileno())
        self.loop.watch(sock.fileno(), READ, lambda _events: self._on_monitor_message(control))

    def _on_monitor_message(self, control: VhostUserControl) -> None:
        try:
            control.handle_message()
        except Hangup as why:
            self._drop_monitor(str(why))
            self._end()

    def _drop_monitor(self, why: str) -> None:
        if self._monitor_connection is None:
            return
        self._log(f"the monitor has disconnected: {why}")
        self.loop.forget(self._monitor_connection.fileno())
        self._monitor_connection.close()
        self._monitor_connection = None
        self.device.reset()

    def _accept_host_program(self, _events: int) -> None:
        try:
            sock, _ = self._host.accept()
        except OSError:  # it has disconnected, or too many files are open: poll again
            return
        self.device.mux.host_handshake.accept(sock)


def bind(path: str) -> socket.socket:
    """Listen on a path that only the owner can access. A file left by a killed backend is replaced."""
    Path(path).unlink(missing_ok=True)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        sock.bind(path)
    finally:
        os.umask(before)
    sock.listen(_BACKLOG)
    return sock


def set_user(uid: int) -> None:  # pragma: no cover  runs in its own process
    """Become the user, with its own group and no others."""
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)


def main() -> None:  # pragma: no cover  runs in its own process
    monitor = sys.argv[1]
    cid = int(sys.argv[2])
    uds = sys.argv[3]
    uid = sys.argv[4]
    bound = bind(monitor), bind(uds)
    os.chdir(os.path.dirname(uds))  # relative paths work even if the user cannot access the parents
    uds = os.path.basename(uds)
    if uid:
        set_user(int(uid))
    signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)  # noqa: T201  the log

    backend = Backend(*bound, cid, uds, say)
    while not backend.ended:
        backend.run_once()
