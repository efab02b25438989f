"""Everything at once: a host with an agent, both platforms, and the process of the bots, over all their lives."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from agent_testing import FakeDiscord, FakeTelegram, LiveProcess, ScriptedProvider
from frontends.store import NAME
from tests.integration.host.live import PATIENCE, Host, catalog
from tests.ports import free_port

WORKSPACE, OTHER = "garden", "orchard"
ASKS = "approved-"
"""An `echo` of a word that begins so needs an approval."""
_RULES = {"rules": [{"permission": "bash", "pattern": f"echo {ASKS}*", "action": "ask"}]}


class KilledHost(Host):
    """A host that the command starts. Killed while the machine is busy, a copy of another process went so slowly that
    the agent had the time to see it go."""

    process_class = LiveProcess


class World:
    """`with World(folder) as world:`. Each of the processes may be killed and started again.

    People use the first of the workspaces until they choose another.
    """

    def __init__(self, folder: Path, *, workspaces: Sequence[str] = (WORKSPACE,)) -> None:
        self.workspaces = workspaces
        self.folder, self.provider = folder, ScriptedProvider()
        self.telegram, self.discord = FakeTelegram(), FakeDiscord()
        self._stack = ExitStack()
        self._bots: LiveProcess | None = None
        self.logs: list[str] = []
        """What the dead processes of the bots have written."""
        self.starts: list[float] = []
        """When a process of the bots was started."""
        self.deaths: list[tuple[float, float]] = []
        """When the agent was killed, alone or with its host: two moments, by the clock of its messages, between which
        it was."""

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for part in (self.provider, self.telegram, self.discord):
                stack.enter_context(part)
            models = catalog(self.folder, self.provider)
            settings = {"MESH_PORT": free_port(), "MESH_MODELS": models, "UPSTREAM_KEY": "sk-1", "MESH_STOP_GRACE": 2}
            self.host = stack.enter_context(KilledHost(self.folder / "mesh", **settings))
            folders = [self._start_agent_in(workspace) for workspace in self.workspaces]
            self.agent_folder = folders[0]
            asked = {"users": ["telegram:*", "discord:*"], "workspaces": [*self.workspaces]}
            self._token = self.host.operator.post("/tokens", json=asked).json()["token"]
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self.stop_bots()
        finally:
            self._stack.close()

    # ---------------------------------------------------------------- the bots

    @property
    def bots(self) -> LiveProcess:
        assert self._bots is not None, "the bots do not run"
        return self._bots

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AGENT_BOTS": str(self.folder / "bots.yaml"),
            "BOTS_DATA_DIR": str(self.folder / "bots"),
            "HOME": str(self.folder),
        }

    def configure(self, people: Sequence[str] = (), approvers: Sequence[str] = ()) -> None:
        """Write `bots.yaml`, with people who need no pairing."""
        shared = {"workspaces": [*self.workspaces], "approvers": [*approvers]}
        given = (
            ("telegram", self.telegram.token, self.telegram.url),
            ("discord", self.discord.bot.token, self.discord.url),
        )
        bots = [
            {
                "name": name,
                "platform": name,
                "token": token,
                "base_url": url,
                "people": [one for one in people if one.startswith(name)],
                **shared,
            }
            for name, token, url in given
        ]
        config = {"mesh": {"url": self.host.url, "token": self._token}, "bots": bots}
        (self.folder / "bots.yaml").write_text(json.dumps(config))

    def start_bots(self) -> None:
        """Start the process; it is not waited for."""
        argv = [sys.executable, "-m", "frontends"]
        self.starts.append(time.monotonic())
        self._bots = LiveProcess(argv, self.environment, timeout=PATIENCE).__enter__()

    def wait_until_connected(self) -> None:
        self.discord.wait_for_session(seconds=PATIENCE)
        self.bots.wait_for_output("bot connected.*telegram")

    def kill_bots(self) -> None:
        """SIGKILL, and another process."""
        assert self.bots.kill9() == -signal.SIGKILL, self.bots.output()
        self._bury()
        self.start_bots()

    def stop_bots(self) -> None:
        if self._bots is not None:
            self._bots.terminate()
            self._bury()

    def _bury(self) -> None:
        assert self._bots is not None
        self.logs.append(self._bots.output())
        self._bots.__exit__(None, None, None)
        self._bots = None

    def command(self, *arguments: str) -> str:
        """Run `agent bots ...` and return what it prints."""
        argv = [sys.executable, "-m", "agent_client", "bots", *arguments]
        with LiveProcess(argv, self.environment) as process:
            assert process.wait(PATIENCE) == 0, process.output()
            return process.output()

    def rows(self, statement: str, *values: str) -> list[tuple[Any, ...]]:
        """Read the database of the bots."""
        with closing(sqlite3.connect(f"file:{self.folder / 'bots' / NAME}?mode=ro", uri=True)) as connection:
            return connection.execute(statement, values).fetchall()

    # ---------------------------------------------------------------- the host and its agent

    def _start_agent_in(self, workspace: str) -> Path:
        """Start an agent in a new workspace, and return the folder of its data."""
        folder = Path(self.host.mesh.workspaces.create(workspace).data_dir or "")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "permissions.yaml").write_text(json.dumps(_RULES))
        assert self.host.mesh.workspaces.start(workspace).state == "running"
        return folder

    def kill_host(self) -> None:
        """SIGKILL to the host, with which its agents end, and another one at the same port."""
        with self._dying():
            assert self.host.process.kill9() == -signal.SIGKILL
        self.host.start()

    def kill_agent(self) -> None:
        """SIGKILL to the runtime as soon as there is one."""
        deadline = time.monotonic() + PATIENCE
        while (pid := self._agent_pid()) is None:
            self.start_agent()
            assert time.monotonic() < deadline, "the agent does not start"
        with self._dying():
            os.kill(pid, signal.SIGKILL)

    @contextmanager
    def _dying(self) -> Generator[None]:
        first = time.time() * 1000
        yield
        self.deaths.append((first, time.time() * 1000))

    def start_agent(self) -> None:
        """Start it as its operator: after many kills the host waits longer and longer before it does so by itself."""
        assert self.host.operator.post(f"/workspaces/{WORKSPACE}/start").status_code < 500

    def _agent_pid(self) -> int | None:
        return next((pid for pid in _descendants(self.host.process.pid) if _is_runtime(pid)), None)


def _descendants(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [one for child in map(int, children) for one in (child, *_descendants(child))]


def _is_runtime(pid: int) -> bool:
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return b"agent_runtime" in arguments and b"serve" in arguments and b"die_with_parent.py" not in arguments[1]
