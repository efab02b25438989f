"""The processes of a run over all their lives: one host, its guests, and a bridge before each of them."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

from agent_testing import BridgeFaults, Event, FakeBridge, LiveProcess

ADMIN = "operator-token"
PATIENCE = 120.0
"""Seconds after which a start has failed: others use the machine too."""
MOST_LINE = 64 << 10
"""Bytes of the longest line that a guest takes: what is larger is dead before it is sent."""
_KEPT = 2
"""Dead processes whose groups are left alone for a while: what they left running must end by itself."""
_FIRST_PORT, _BEHIND_PORTS = 18_000, 32_000
"""Below those that the kernel gives away, or a dial to a host that is down could meet itself."""


class Life:
    """A command, started and killed again and again."""

    def __init__(self, name: str, argv: list[str], env: Mapping[str, str], ready: str, logs: Path) -> None:
        self.name, self._argv, self._env, self._ready, self._logs = name, argv, env, ready, logs
        self._process: LiveProcess | None = None
        self._dead: deque[tuple[int, LiveProcess]] = deque()
        self.number = 0
        """Of the life that goes on, or of the last one."""

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def begin(self) -> None:
        """Spawns the next life and does not wait for it."""
        self.number += 1
        self._process = LiveProcess([sys.executable, "-m", *self._argv], self._env).__enter__()

    async def ready(self) -> str:
        """Waits until it says that it is ready. Raises when it ends or takes too long. What it says."""
        assert self._process is not None
        return (await asyncio.to_thread(self._process.wait_for_output, self._ready, PATIENCE))[0]

    def kill(self) -> None:
        """kill -9, of the process alone. Raises when it had ended by itself."""
        assert self._process is not None
        if self._process.kill9() != -9:
            raise RuntimeError(f"{self.name} ended by itself in its life {self.number}:\n{self._process.output()}")
        self._dead.append((self.number, self._process))
        self._process = None
        self._bury(_KEPT)

    def end(self) -> None:
        if self._process is not None:
            self._dead.append((self.number, self._process))
            self._process = None
        self._bury(0)

    def _bury(self, keep: int) -> None:
        while len(self._dead) > keep:
            number, process = self._dead.popleft()
            if process.returncode is None:
                process.terminate()
            (self._logs / f"{self.name}-{number:03}.log").write_text(process.output(), "utf-8")
            process.__exit__(None, None, None)


class Guest:
    """An agent, its data, and the bridge through which it reaches the host."""

    def __init__(self, number: int, folder: Path, model_url: str, target: str, ports: Iterator[int]) -> None:
        self.id, self.folder = f"agent-{number}", folder / f"agent-{number}"
        self.folder.mkdir()
        self.data, self.target = self.folder / "data", target
        # Resets are known to TCP alone; a unix socket is what a supervisor has.
        self._listen = f"tcp://127.0.0.1:{next(ports)}" if number % 2 == 0 else f"unix:{self.folder}/med.sock"
        self.breaks = self.probes = 0
        self.history: list[Event] = []
        """Faults of the weather."""
        self.bridge = FakeBridge(self._listen, target)
        self._key = self.folder / "key"
        env = {
            "AGENT_ID": self.id,
            "AGENT_PORT": "0",
            "AGENT_DATA_DIR": str(self.data),
            "AGENT_LLM_BASE_URL": model_url,
            "AGENT_MEDIATION_URL": self._listen,
            "AGENT_MEDIATION_KEY_FILE": str(self._key),
            "AGENT_MEDIATION_WINDOW": "4",
            "AGENT_MEDIATION_MAX_LINE": str(MOST_LINE),
            "AGENT_MEDIATION_REQUIRED": "true" if number % 4 < 2 else "false",
            "AGENT_MEDIATION_GRACE": "90",  # so that a guest that is kept out for long shows
            "HOME": str(self.folder),
        }
        self.life = Life(self.id, ["agent_runtime", "serve"], env, r'"url": "http://[^"]+"', folder / "logs")

    @property
    def database(self) -> Path:
        return self.data / "agent.db"

    def key(self, text: str) -> None:
        self._key.write_text(text)
        self._key.chmod(0o600)

    async def weather(self, faults: BridgeFaults | None) -> None:
        """Another bridge at the same address, with these faults; the connections of the old one are gone."""
        await self.calm()
        self.bridge = await FakeBridge(self._listen, self.target, faults=faults).__aenter__()

    async def calm(self) -> None:
        """The bridge is gone, and what it has counted is kept."""
        self.breaks += self.bridge.counts.breaks
        self.probes += self.bridge.counts.probes
        self.history += self.bridge.history
        await self.bridge.__aexit__(None, None, None)


class HostLives(Life):
    """`agent-host listen`, always at the same addresses."""

    def __init__(self, folder: Path, ports: Iterator[int], **more: str) -> None:
        """`more`: settings."""
        port, target = next(ports), next(ports)
        self.url, self.target = f"http://127.0.0.1:{port}", f"tcp://127.0.0.1:{target}"
        self.database = folder / "host" / "mesh.db"
        env = {
            "MESH_DATA_DIR": str(folder / "host"),
            "MESH_ADMIN_TOKEN": ADMIN,
            "MESH_PORT": str(port),
            "MESH_LISTENER_URL": self.target,
            "MESH_LISTENER_HEARTBEAT": "2",
            "HOME": str(folder),
            **more,
        }
        super().__init__("host", ["agent_host", "listen"], env, r"agents come for work to", folder / "logs")


def free_ports() -> Iterator[int]:
    """Ports that nobody listens on now, and that the kernel gives to nobody who does not name them."""
    start = _FIRST_PORT + os.getpid() * 61 % (_BEHIND_PORTS - _FIRST_PORT)
    for port in (*range(start, _BEHIND_PORTS), *range(_FIRST_PORT, start)):
        with closing(socket.socket()) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        yield port
