"""Runtimes that one test after another uses, each cleaned of what the test before has left."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx

from agent_testing import LiveProcess, ScriptedProvider

from .live import Runtime, eventually

MOST = 4
"""Runtimes that are kept at the same time; the one that was used longest ago makes room."""
Settings = tuple[tuple[str, str], ...]


class Kept:
    """A runtime, and what its folders hold before any test."""

    def __init__(self, provider: ScriptedProvider, folder: Path, settings: Settings) -> None:
        self._life = ExitStack()
        self.runtime = self._life.enter_context(Runtime(provider, folder / "data", **dict(settings)))
        self._process: LiveProcess = self.runtime.process
        self._roots, self._files = set(self._data()), set(self._below())

    def clean(self) -> bool:
        """Whether the next test finds nothing of the last one; a runtime that was killed or restarted is not clean."""
        if self.runtime.process is not self._process or self._process.returncode is not None:
            return False
        try:
            return self._rest() and self._forget()
        except (AssertionError, httpx.HTTPError, OSError):
            return False

    def close(self) -> None:
        self._life.close()

    def _rest(self) -> bool:
        """Ends what runs, is queued or waits for an answer."""
        agent = self.runtime
        for session in agent.sql("SELECT DISTINCT session_id FROM turns WHERE state != 'ended'"):
            agent.post(f"/chat/{session['session_id']}/abort", {})
        return eventually(lambda: agent.status()["state"] == "idle", 5)

    def _forget(self) -> bool:
        agent = self.runtime
        while found := agent.get("/sessions", limit=100).json()["sessions"]:
            for session in found:
                agent.http.delete(f"/sessions/{session['id']}").raise_for_status()
        for path in sorted(set(self._below()) - self._files, reverse=True):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        return set(self._data()) == self._roots and set(self._below()) == self._files

    def _data(self) -> Iterator[Path]:
        """What lies in the data folder itself, the database's own files left out, which come and go."""
        return (path for path in self.runtime.data_dir.iterdir() if not path.name.startswith(("agent.db", "spare-")))

    def _below(self) -> Iterator[Path]:
        for name in ("agents", "skills", "workspace"):
            yield from (self.runtime.data_dir / name).rglob("*")


class Pool:
    """Hands out runtimes by their settings. All of them ask one provider, as one test runs at a time."""

    def __init__(self, provider: ScriptedProvider, folder: Path) -> None:
        self.provider = provider
        self._folder = folder
        self._made = 0
        self._kept: dict[Settings, Kept] = {}
        self._lent: dict[Settings, Kept] = {}

    def lend(self, **settings: object) -> Runtime:
        """A clean runtime; a test that asks twice for the same settings gets the same one."""
        key = tuple(sorted((name, str(value)) for name, value in settings.items()))
        if key not in self._lent:
            if (found := self._kept.pop(key, None)) is None:
                self._made += 1
                found = Kept(self.provider, self._folder / f"{self._made}", key)
            self._lent[key] = found
        return self._lent[key].runtime

    def take_back(self) -> None:
        """Clean what the test had; what cannot be cleaned is over."""
        self.provider.release()
        self.provider.script.replace(None)
        for key, one in self._lent.items():
            if one.clean():
                self._kept[key] = one
            else:
                one.close()
        self._lent.clear()
        while len(self._kept) > MOST:
            self._kept.pop(next(iter(self._kept))).close()

    def close(self) -> None:
        for one in (*self._kept.values(), *self._lent.values()):
            one.close()
