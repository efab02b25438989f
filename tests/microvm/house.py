"""A host with one microVM of the built image, and what its tests ask of both."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx
import psutil
import pytest

from agent_host.fleet.machine import SocketDir
from agent_host.fleet.machine.processes import read_record
from agent_testing import ScriptedProvider
from tests.integration.host.live import Host, catalog

from .machine import IMAGE, PATIENCE, Took, born, busy

T = TypeVar("T")
KEY = "sk-never-in-the-guest"
OPEN = ("queued", "dispatched", "accepted")
MONITOR = "qemu-system-x86_64"


def eventually(look: Callable[[], T | None], what: str) -> T:
    """What it finds, once it finds something."""
    deadline = time.monotonic() + PATIENCE
    while not (found := look()):
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.05)
    return found


class House:
    def __init__(self, host: Host, provider: ScriptedProvider, name: str) -> None:
        self.host, self.provider, self.name = host, provider, name
        self.seat = SocketDir.for_workspace(host.data_dir / "vm", name)
        made = self.operator.post("/workspaces", json={"id": name, "driver": "qemu"})
        assert made.status_code == 201, made.text
        self.token: str = made.json()["token"]
        self.boots: list[Took] = []
        """Until READY, of those that were waited for."""
        self._seen: set[psutil.Process] = set()

    @property
    def operator(self) -> httpx.Client:
        """A client of the host's present life."""
        self.host.operator.timeout = httpx.Timeout(PATIENCE)
        return self.host.operator

    # ---------------------------------------------------------------- the machine

    def start(self) -> None:
        """Boots it and waits until it can be given work; one that runs stays as it is."""
        reply = self.operator.post(f"/workspaces/{self.name}/start")
        assert reply.status_code == 200, reply.text
        self.until_ready()

    def until_ready(self) -> None:
        work: list[tuple[float, float]] = []

        def ready() -> bool:
            monitors = self.processes().get(MONITOR)
            if monitors:
                work.append((time.time(), busy(monitors[0])))
            seen = self.look()
            assert seen["state"] in ("running", "starting", "failed"), seen
            return bool(seen["mediationReady"]["ready"])

        def said() -> list[float]:
            """Those of this boot: the trail is written a moment after the fact."""
            signals = [entry["at"] / 1000 for entry in self.audit() if entry["type"] == "signal.ready"]
            return [at for at in signals if at > born(self.monitor)]

        eventually(ready, "the guest is ready")
        at = max(eventually(said, "its signal is in the audit trail"))
        if done := [done for seen, done in work if seen <= at]:  # else it was ready before anybody asked
            self.boots.append(Took(at - born(self.monitor), done[-1]))

    def stop(self) -> dict[str, Any]:
        reply = self.operator.post(f"/workspaces/{self.name}/stop")
        assert reply.status_code == 200, reply.text
        return reply.json()

    def look(self) -> dict[str, Any]:
        return self.operator.get(f"/workspaces/{self.name}").json()

    def processes(self) -> dict[str, list[int]]:
        """Those of the machine that run, by name, whichever process of the host has started them."""
        record = read_record(self.seat.folder) if self.seat.folder.exists() else None
        for one in record.processes if record else ():
            with contextlib.suppress(psutil.NoSuchProcess):
                if one.running:
                    self._seen.add(psutil.Process(one.pid))
        found: dict[str, list[int]] = {}
        for process in self._seen:
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                found.setdefault(process.name(), []).append(process.pid)
        return found

    @property
    def monitor(self) -> int:
        [pid] = self.processes()[MONITOR]
        return pid

    def sockets(self) -> set[str]:
        """What leads from this machine to the host, or back."""
        return {path.name for path in self.seat.folder.iterdir() if path.is_socket()}

    def run(self, *argv: str) -> str:
        """What a command prints in the guest."""
        reply = self.operator.post(f"/workspaces/{self.name}/exec", json={"argv": argv})
        assert reply.status_code == 200, reply.text
        ended = reply.json()
        assert ended["code"] == 0, ended
        return ended["stdout"]

    def console(self) -> str:
        return (self.host.data_dir / f"workspaces/{self.name}/console.log").read_text("utf-8", "replace")

    def get(self, path: str) -> tuple[int, Any]:
        """From the agent's own API, through the host."""
        reply = self.operator.get(f"/workspaces/{self.name}/api{path}")
        return reply.status_code, reply.json() if "json" in reply.headers.get("content-type", "") else reply.text

    # ---------------------------------------------------------------- work

    def submit(self, request_id: str, content: str) -> httpx.Response:
        request = {"request_id": request_id, "content": content}
        return self.operator.post("/work", json={"workspace": self.name, "request": request})

    def record(self, request_id: str) -> dict[str, Any]:
        return self.operator.get(f"/work/{request_id}").json()

    def ended(self, request_id: str) -> dict[str, Any]:
        """Its record, once it is over."""
        return eventually(
            lambda: found if (found := self.record(request_id))["status"] not in OPEN else None, "the work has ended"
        )

    def audit(self, **query: str) -> list[dict[str, Any]]:
        params = {"workspace": self.name, "limit": "1000", **query}
        return self.operator.get("/audit", params=params).json()["entries"]

    def recorded(self, request_id: str) -> int:
        """How often a result of it was written down."""
        return [entry["type"] for entry in self.audit(request_id=request_id)].count("resulted")

    def told(self) -> list[str]:
        """What the tools answered, in the last call of the model."""
        messages = self.provider.completions[-1].messages
        return [str(message["content"]) for message in messages if message["role"] == "tool"]


@contextmanager
def host_with_machine(folder: Path, provider: ScriptedProvider, **settings: object) -> Generator[House]:
    """A host, and a workspace `guest` of the driver `qemu`. No machine is left at the end."""
    given = {
        "MESH_MODELS": catalog(folder, provider),
        "UPSTREAM_KEY": KEY,
        "MESH_EGRESS_HOSTS": "example.org",
        "MESH_EGRESS_PORT": "0",
        "MESH_VM_IMAGE": IMAGE,
        "MESH_VM_ACCEL": "tcg",
        "MESH_START_TIMEOUT": PATIENCE,
        "AGENT_CONFINEMENT": "required",
    }
    host = Host(folder / "data", **given, **settings)
    try:
        with host:
            try:
                yield House(host, provider, "guest")
            finally:
                provider.release()
                print(host.process.output()[-4000:])
    finally:
        for one in (host.data_dir / "vm").iterdir():
            for process in record.processes if one.is_dir() and (record := read_record(one)) else ():
                if process.running:
                    os.kill(process.pid, signal.SIGKILL)


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with (
        ScriptedProvider(models=("big-1", "vectors-1")) as provider,
        host_with_machine(tmp_path_factory.mktemp("house"), provider) as house,
    ):
        yield house
