"""A host that a test drives by hand: a listening socket, and connections whose every line is seen."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from agent_common.protocol.work import Offer, compute_host_mac, new_challenge, verify_mac

PATIENCE = 60.0
CLOCK = "2026-11-22T02:00:00Z"
KEY = b"a key of the workspace"


def request(request_id: str, content: str = "ping", **changes: Any) -> dict[str, Any]:
    """A WorkRequest of the strict dialect."""
    return {
        "request_id": request_id,
        "principal": {"name": "operator", "kind": "user", "verified": True},
        "content": content,
        "constraints_version": 0,
        "submitted_at": CLOCK,
        "audit_ref": f"audit-{request_id}",
        **changes,
    }


class Peer:
    """One connection of an agent."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.seen: list[dict[str, Any]] = []
        """Every frame so far."""
        self._rest = b""

    def send(self, *frames: dict[str, Any]) -> None:
        self.raw(b"".join(json.dumps(frame).encode() + b"\n" for frame in frames))

    def raw(self, data: bytes) -> None:
        self.socket.sendall(data)

    def line(self, seconds: float = PATIENCE) -> dict[str, Any] | None:
        """The next frame; None once the agent has closed."""
        deadline = time.monotonic() + seconds
        while b"\n" not in self._rest:
            self.socket.settimeout(max(0.001, deadline - time.monotonic()))
            try:
                data = self.socket.recv(65536)
            except ConnectionError:
                return None
            if not data:
                return None
            self._rest += data
        line, self._rest = self._rest.split(b"\n", 1)
        frame: dict[str, Any] = json.loads(line)
        self.seen.append(frame)
        return frame

    def until(self, seconds: float = PATIENCE, **wanted: Any) -> dict[str, Any]:
        """The next frame with these fields; whatever comes before it is only seen. Pings are answered."""
        deadline = time.monotonic() + seconds
        while (frame := self.line(max(0.001, deadline - time.monotonic()))) is not None:
            if frame.get("ctl") == "ping":
                self.send({"ctl": "pong", "n": frame["n"]})
            if all(frame.get(name) == value for name, value in wanted.items()):
                return frame
        raise AssertionError(f"the agent closed before {wanted}: {self.seen}")

    def result(self, request_id: str) -> dict[str, Any]:
        """The request's result, after which its place is free."""
        while True:
            frame = self.until(request_id=request_id)
            if "status" in frame:
                return frame

    def quiet(self, seconds: float = 0.5) -> bool:
        """Whether nothing but heartbeats comes for so long."""
        try:
            frame = self.line(seconds)
        except TimeoutError:
            return True
        return frame is not None and frame.get("ctl") == "ping"

    def welcome(self, *, epoch: int = 1, challenge: bool = False, **fields: Any) -> dict[str, Any]:
        """Takes the offer of the `ready` that comes next, and has the proof if one is asked for. What it resumes."""
        ready = self.until(signal="ready")
        offer = Offer.parse(ready["detail"])
        assert offer is not None
        asked = {"challenge": new_challenge()} if challenge else {}
        identity = {"workspace": "ws", "agent_id": "ws-1", "epoch": epoch}
        asked["mac"] = compute_host_mac(
            KEY, challenge=asked.get("challenge"), sid=offer.sid, agent_id="ws-1", epoch=epoch
        )
        self.send({"ctl": "welcome", "v": 1, **identity, "heartbeat_s": 15, "max_line": 1 << 20, **asked, **fields})
        if challenge:
            proof = self.until(ctl="attach")
            assert proof["sid"] == offer.sid
            assert verify_mac(
                proof["mac"], KEY, challenge=asked["challenge"], sid=offer.sid, agent_id="ws-1", epoch=epoch
            )
        return self.until(ctl="resume")

    def attach(self, verdicts: dict[str, str] | None = None, **fields: Any) -> dict[str, Any]:
        """The whole greeting."""
        resume = self.welcome(**fields)
        self.send({"ctl": "resume_ok", "verdicts": verdicts or {}})
        return resume

    def close(self) -> None:
        self.socket.close()

    def reset(self) -> None:
        """As a supervisor does that takes a snapshot: no goodbye."""
        import struct

        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


class Host:
    """Listens on a unix socket, and on the same one again after `hang_up`."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "mediation.sock"
        self.url = f"unix:{self.path}"
        self._peers: list[Peer] = []
        self._listening: socket.socket | None = None
        self.listen()

    def listen(self) -> None:
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(self.path))
        self._listening.listen(128)

    def hang_up(self) -> None:
        """Nobody listens any more."""
        if self._listening is not None:
            self._listening.close()
            self.path.unlink()
            self._listening = None

    def accept(self, seconds: float = PATIENCE) -> Peer:
        assert self._listening is not None
        self._listening.settimeout(seconds)
        peer = Peer(self._listening.accept()[0])
        self._peers.append(peer)
        return peer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for peer in self._peers:
            peer.close()
        self.hang_up()
