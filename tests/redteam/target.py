"""The attacked server as a process, and those who call it."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from agent_testing import LiveProcess

PATIENCE = 60.0
LAUNCH = [sys.executable, "-m", "tests.redteam.launch"]
SERVE = [sys.executable, "-m", "agent_runtime", "serve"]


class Target:
    """One server over all its lives."""

    def __init__(self, data: Path, uid: int, token: str, model_url: str, settings: Mapping[str, str]) -> None:
        self.data, self.uid, self.model_url = data, uid, model_url
        self.token = token
        self._settings = dict(settings)
        self._life = ExitStack()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._life.close()

    def start(self) -> None:
        """A new life; an older one is over."""
        self._life.close()
        with ExitStack() as life:
            self.process = life.enter_context(LiveProcess([*LAUNCH, str(self.uid), *SERVE], self._settings))
            self.url = self.process.wait_for_output(r'"url": "(http://[^"]+)"', PATIENCE)[1]
            self._http = life.enter_context(self._client())
            self._life = life.pop_all()

    @property
    def port(self) -> str:
        return self.url.rsplit(":", 1)[1]

    def chat(self, message: str, session: str, agent: str = "") -> dict[str, Any]:
        who = {"agent": agent} if agent else {}
        reply = self._http.post("/chat", json={"message": message, "session_id": session, **who})
        return reply.json()

    def get(self, path: str) -> Any:
        return self._http.get(path).json()

    def delete(self, session: str) -> None:
        self._http.delete(f"/sessions/{session}").raise_for_status()

    def clear(self, session: str) -> None:
        """Ends a session and empties the workspace."""
        self.delete(session)
        for path in (self.data / "workspace").iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def works(self) -> bool:
        """Whether it is alive, and answers."""
        try:
            with self._client(timeout=3) as http:
                return self.process.returncode is None and http.get("/status").status_code == 200
        except httpx.HTTPError:
            return False

    def _client(self, timeout: float = PATIENCE) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self.token}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=timeout, trust_env=False, verify=False)  # noqa: S501  plain HTTP: nothing to verify


def processes(mark: str) -> list[int]:
    """Everybody in the container whose command line carries the mark, the dead that wait for their burial aside."""
    numbers = filter(str.isdigit, os.listdir("/proc"))
    return [int(number) for number in numbers if mark.encode() in _read(f"/proc/{number}/cmdline")]


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def eventually(check: Callable[[], Any], timeout: float = PATIENCE) -> Any:
    """Waits until the check gives something true, and gives that."""
    deadline = time.monotonic() + timeout
    while not (found := check()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"it did not come true within {timeout} s")
        time.sleep(0.01)
    return found
