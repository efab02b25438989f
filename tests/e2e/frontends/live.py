"""A live process of bots, and the command of its operator."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

ROOT = Path(__file__).parents[3]
TOKEN = "123456:secret-of-telegram"
SECONDS = 30.0


class Bots:
    """The process of `program.py` in a folder; it may be started and killed again and again."""

    def __init__(self, folder: Path, people: Iterable[int] = ()) -> None:
        self.folder = folder
        self._config = folder / "bots.yaml"
        allowed = [f"telegram:{id}" for id in people]
        bot = {"name": "home", "platform": "telegram", "token": TOKEN, "workspaces": ["a"], "people": allowed}
        mesh = {"url": "http://127.0.0.1:9", "token": "secret-of-mesh"}
        self._config.write_text(json.dumps({"mesh": mesh, "bots": [bot]}))
        self.environment = {
            **os.environ,
            "AGENT_BOTS": str(self._config),
            "BOTS_DATA_DIR": str(folder / "data"),
            "HOME": str(folder),
        }
        self.process: subprocess.Popen[bytes] | None = None
        self._updates = 0

    def start(self) -> subprocess.Popen[bytes]:
        with (self.folder / "log").open("ab") as log:
            argv = [sys.executable, "-m", "tests.e2e.frontends.program", str(self.folder)]
            self.process = subprocess.Popen(argv, cwd=ROOT, env=self.environment, stderr=log)
        return self.process

    def stop(self, number: int = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(SECONDS)

    def write(self, *senders: int) -> None:
        """Have each sender write a message."""
        with (self.folder / "updates").open("a") as file:
            for sender in senders:
                self._updates += 1
                file.write(json.dumps([self._updates, sender]) + "\n")

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run `agent bots ...`."""
        argv = [sys.executable, "-m", "agent_client", "bots", *arguments]
        return subprocess.run(
            argv, cwd=ROOT, env=self.environment, capture_output=True, text=True, timeout=SECONDS, check=False
        )

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def sent(self, chat: int) -> list[str]:
        path = self.folder / "sent"
        lines = path.read_text().splitlines() if path.exists() else []
        return [text for where, text in map(json.loads, lines) if where == str(chat)]

    def effects(self) -> list[tuple[int, str]]:
        """Update and person of each that was handled, in that order."""
        path = self.folder / "data" / "bots.db"
        if not path.exists():
            return []
        connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        try:
            return connection.execute("SELECT CAST(id AS INTEGER), person FROM effects ORDER BY number").fetchall()
        except sqlite3.OperationalError:  # no table yet
            return []
        finally:
            connection.close()


def eventually(condition: Callable[[], object], seconds: float = SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
