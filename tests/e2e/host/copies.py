"""Guests that are copied and restored, as snapshots do it to whole machines."""

from __future__ import annotations

import os
import shutil
import signal
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from agent_testing import LiveProcess, ScriptedProvider
from tests.e2e.live import Runtime, eventually
from tests.integration.host.live import PATIENCE, Host
from tests.soak.model import EFFECTS, Model, Orders
from tests.soak.record import effects, read

WORKSPACE = "a"


class Ward:
    """A host with one workspace, and the copies of its guest that a test wakes."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._stack = folder, ExitStack()
        self.model = Model(lambda: 0)

    def __enter__(self) -> Self:
        provider = self._stack.enter_context(ScriptedProvider(self.model))
        self.provider = provider
        url = f"unix:{self._folder}/host.sock"
        self.host = self._stack.enter_context(Host(self._folder / "mesh", MESH_LISTENER_URL=url))
        made = self.host.operator.post("/workspaces", json={"id": WORKSPACE, "driver": "external"})
        assert made.status_code == 201, made.text
        assert self.host.operator.post(f"/workspaces/{WORKSPACE}/start").status_code == 200
        self._key = self._folder / "key"
        self._key.write_text(made.json()["mediation_key"])
        self._url = url
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()

    def wake(self, name: str, **settings: object) -> Runtime:
        """A guest over the data of that name."""
        given = {"AGENT_ID": WORKSPACE, "AGENT_MEDIATION_URL": self._url, "AGENT_MEDIATION_KEY_FILE": self._key}
        guest = Runtime(self.provider, self._folder / name, **{**given, "AGENT_MEDIATION_REQUIRED": "true", **settings})
        return self._stack.enter_context(guest)

    def snapshot(self, process: LiveProcess, source: str, copy: str) -> None:
        """The data at one moment, while nothing in the guest moves."""
        os.kill(process.pid, signal.SIGSTOP)
        try:
            shutil.copytree(self._folder / source, self._folder / copy, symlinks=True)
        finally:
            os.kill(process.pid, signal.SIGCONT)

    def restore(self, copy: str, to: str) -> None:
        """The data of a guest that does not run is that of the copy."""
        shutil.rmtree(self._folder / to)
        shutil.copytree(self._folder / copy, self._folder / to, symlinks=True)

    # ---------------------------------------------------------------- work

    def submit(self, orders: Orders) -> int:
        """The status of the answer."""
        request = {"request_id": orders.owner, "content": orders.text()}
        return self.host.operator.post("/work", json={"workspace": WORKSPACE, "request": request}).status_code

    def ended(self, name: str) -> dict[str, Any]:
        return self.host.mesh.work.wait(name, PATIENCE).model_dump(mode="json")

    def attached(self) -> int:
        """The epoch that is attached; 0 for none."""
        ready = self.host.operator.get(f"/workspaces/{WORKSPACE}").json()["mediationReady"]
        return ready["epoch"] if ready["attached"] else 0

    def trail(self, *kinds: str) -> list[dict[str, Any]]:
        entries = self.host.operator.get("/audit", params={"workspace": WORKSPACE, "limit": 1000}).json()["entries"]
        return [entry for entry in entries if entry["type"] in kinds]


def is_in(guest: Runtime, *states: str) -> None:
    eventually(lambda: guest.status()["channel"] in states, 2 * PATIENCE)


def given(guest: Runtime) -> set[str]:
    """The requests that this copy has taken."""
    return {row[0] for row in guest.sql("SELECT request_id FROM work")}


def lines(guest: Runtime) -> list[str]:
    """What commands have left in this copy."""
    return effects(guest.data_dir / "workspace" / EFFECTS)


def turns(guest: Runtime, owner: str) -> int:
    return len(read(guest.data_dir / "agent.db").by_owner.get(owner, []))
