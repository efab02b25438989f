"""The server over all its lives: the port and the data stay, processes come and go."""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from pathlib import Path
from types import TracebackType
from typing import Self

from agent_testing import LiveProcess
from tests.ports import free_port

TOKEN = "sesame"
PATIENCE = 30.0
"""Seconds after which a wait has failed."""
_READY = r'"url": "http://'
_KEPT = 3
"""Dead processes whose process groups are left alone for a while: what they left running must end by itself."""


class Lives:
    """Starts, kills and starts again."""

    def __init__(self, folder: Path, model_url: str, **settings: object) -> None:
        self.folder, self.data = folder, folder / "data"
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._env = {
            "AGENT_PORT": str(self.port),
            "AGENT_DATA_DIR": str(self.data),
            "AGENT_LLM_BASE_URL": model_url,
            "AGENT_TOKEN": TOKEN,
            **{name: str(value) for name, value in settings.items()},
        }
        self._changed = threading.Condition()
        self._dead: deque[LiveProcess] = deque()
        self._process: LiveProcess | None = None
        self._began = 0.0
        self.number = 0
        """Of the life that goes on, or of the last one."""
        self.deaths: list[float] = []
        """When each life was ended, in epoch seconds, as the record counts too."""
        self.starts: list[float] = []
        """Seconds from spawn to readiness."""

    def __enter__(self) -> Self:
        self.begin()
        self.ready()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._dead.append(self._process)
        self._bury(0)

    @property
    def alive(self) -> bool:
        return self._process is not None

    @property
    def pid(self) -> int:
        """Of the life that goes on."""
        assert self._process is not None
        return self._process.pid

    def begin(self) -> None:
        """Spawns the process of the next life and does not wait for it."""
        with self._changed:
            self.number += 1
            self._began = time.monotonic()
            self._process = LiveProcess([sys.executable, "-m", "agent_runtime", "serve"], self._env).__enter__()
            self._changed.notify_all()

    def ready(self) -> None:
        """Waits until this life says that it is ready. Raises when it ends or takes too long."""
        assert self._process is not None
        self._process.wait_for_output(_READY, PATIENCE)
        self.starts.append(time.monotonic() - self._began)

    def kill(self) -> None:
        """kill -9, of the server alone."""
        assert self._process is not None
        self.deaths.append(time.time())
        if self._process.kill9() != -9:
            raise RuntimeError(f"life {self.number} ended by itself:\n{self._process.output()}")
        self._dead.append(self._process)
        self._process = None
        self._bury(_KEPT)

    def next(self, than: int, timeout: float) -> None:
        """Waits a moment for a life that is newer than this one."""
        with self._changed:
            self._changed.wait_for(lambda: self.number > than, timeout)

    def deaths_between(self, start: float, end: float) -> int:
        return sum(start <= death <= end for death in self.deaths)

    def _bury(self, keep: int) -> None:
        while len(self._dead) > keep:
            process = self._dead.popleft()
            number = self.number - len(self._dead)
            (self.folder / f"life-{number:03}.log").write_text(process.output(), "utf-8")
            process.__exit__(None, None, None)
