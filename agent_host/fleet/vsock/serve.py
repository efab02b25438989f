"""The backend as a process: one machine, its monitor's socket and its programs' socket."""

from __future__ import annotations

import ctypes
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
_PR_SET_PDEATHSIG = 1


class Backend:
    """`monitor` and `host` listen already. A monitor that goes may come again, as after its restart."""

    def __init__(
        self, monitor: socket.socket, host: socket.socket, cid: int, uds: str, log: Callable[[str], None]
    ) -> None:
        self.loop = PollLoop()
        self.device = Device(self.loop, cid, uds, log)
        self._monitor, self._host, self._cid, self._log = monitor, host, cid, log
        self._monitor_connection: socket.socket | None = None
        for sock in (monitor, host):
            sock.setblocking(False)
        self.loop.watch(monitor.fileno(), READ, self._accept_monitor)
        self.loop.watch(host.fileno(), READ, self._accept_host_program)

    def run_once(self, timeout: float | None = None) -> None:
        """Waits for something, does it."""
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

    def _accept_monitor(self, _events: int) -> None:
        """One monitor at a time: another waits until the first has gone."""
        try:
            sock, _ = self._monitor.accept()
        except OSError:
            return
        control = VhostUserControl(sock, self.device, self._cid)
        self._monitor_connection = sock
        self.loop.forget(self._monitor.fileno())
        self.loop.watch(sock.fileno(), READ, lambda _events: self._on_monitor_message(control))

    def _on_monitor_message(self, control: VhostUserControl) -> None:
        try:
            control.handle_message()
        except Hangup as why:
            self._drop_monitor(str(why))
            self.loop.watch(self._monitor.fileno(), READ, self._accept_monitor)

    def _drop_monitor(self, why: str) -> None:
        if self._monitor_connection is None:
            return
        self._log(f"the monitor has gone: {why}")
        self.loop.forget(self._monitor_connection.fileno())
        self._monitor_connection.close()
        self._monitor_connection = None
        self.device.reset()

    def _accept_host_program(self, _events: int) -> None:
        try:
            sock, _ = self._host.accept()
        except OSError:  # it has gone again, or there are too many files: the next turn tries once more
            return
        self.device.mux.host_handshake.accept(sock)


def bind(path: str) -> socket.socket:
    """A socket that listens, for its owner alone. What a killed backend has left there is replaced."""
    Path(path).unlink(missing_ok=True)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        sock.bind(path)
    finally:
        os.umask(before)
    sock.listen(_BACKLOG)
    return sock


def set_user(uid: int) -> None:  # pragma: no cover  of a process of its own
    """A user without a name, from now on."""
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)


def main() -> None:  # pragma: no cover  a process of its own
    monitor, cid, uds, uid = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
    host, bound = os.getppid(), (bind(monitor), bind(uds))
    os.chdir(os.path.dirname(uds))  # from here the doors are found whoever it is
    uds = os.path.basename(uds)
    if uid:
        set_user(int(uid))
    if sys.platform == "linux":  # after the change of the user, which takes the leash off
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != host:
            sys.exit(1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)  # noqa: T201  its log

    backend = Backend(*bound, cid, uds, say)
    while True:
        backend.run_once()
