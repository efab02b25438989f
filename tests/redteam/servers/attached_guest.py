"""A guest that attaches to a listener over TCP and then sends what a test gives it, as fast as the host takes it."""

from __future__ import annotations

import json
import socket
import threading
from types import TracebackType
from typing import Any, Self

from agent_common.protocol.work import compute_mac, new_sid

NOW = "2026-11-22T02:19:05Z"
_PATIENCE = 60.0
_PIECE = 256 << 10


class Guest:
    """One connection. All that the host sends after the greeting is read and counted by a thread."""

    def __init__(self, port: int, name: str, key: str | None) -> None:
        self._port, self._name, self._key = port, name, key
        self.sent = self.received = 0
        """Bytes after the greeting."""

    def __enter__(self) -> Self:
        self._socket = socket.create_connection(("127.0.0.1", self._port), _PATIENCE)
        try:
            self._greet()
        except BaseException:
            self._socket.close()
            raise
        self._socket.settimeout(0.2)
        self._over = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._over.set()
        self._reader.join(_PATIENCE)
        self._socket.close()

    def flood(self, lines: list[bytes], stop: threading.Event) -> None:
        """Sends the lines again and again until told to stop, or the host hangs up."""
        data = b"\n".join(lines) + b"\n"
        pieces = [data[begin : begin + _PIECE] for begin in range(0, len(data), _PIECE)]
        while not stop.is_set():
            for piece in pieces:
                if stop.is_set() or not self._send(piece, stop):
                    return

    def send(self, lines: list[bytes]) -> None:
        """Send the lines once, or until the host hangs up."""
        never = threading.Event()
        for line in lines:
            if not self._send(line + b"\n", never):
                return

    def _send(self, piece: bytes, stop: threading.Event) -> bool:
        """Whether the connection is still there; while the host does not read, its caller may be told to stop."""
        left = memoryview(piece)
        while left and not stop.is_set():
            try:
                sent = self._socket.send(left)
            except TimeoutError:
                continue
            except OSError:
                return False
            self.sent += sent
            left = left[sent:]
        return True

    def _read(self) -> None:
        while not self._over.is_set():
            try:
                data = self._socket.recv(_PIECE)
            except TimeoutError:
                continue
            except OSError:
                return
            if not data:
                return
            self.received += len(data)

    def _greet(self) -> None:
        sid, lines = new_sid(), self._socket.makefile("rb")
        detail = f"med/1 win=4 max=1048576 sid={sid}"
        self._say(signal="ready", agent_id=self._name, observed_at=NOW, detail=detail)
        welcome = json.loads(lines.readline())
        assert welcome["ctl"] == "welcome", welcome
        if welcome.get("challenge"):
            proof = {name: welcome[name] for name in ("challenge", "agent_id", "epoch")}
            self._say(ctl="attach", sid=sid, mac=compute_mac((self._key or "").encode(), sid=sid, **proof))
        self._say(ctl="resume", running=[], unacked=[])
        assert json.loads(lines.readline())["ctl"] == "resume_ok"

    def _say(self, **frame: Any) -> None:
        self._socket.sendall(json.dumps(frame).encode() + b"\n")
