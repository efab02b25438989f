"""`python -m tests.pulse URL TOKEN PATH`: asks for it every 20 ms until its input ends, then prints what each answer
took, in milliseconds. A process of its own, ahead of all others: neither the crowd in the tester's process nor what a
command does to the machine is taken for the server's slowness."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from types import TracebackType
from typing import Self

import httpx

from agent_runtime.sandbox import raise_priority

EVERY = 0.02
LONGEST = 10.0
"""Seconds after which an answer counts as given up."""
READY = b"asks\n"


class Pulse:
    """Asks while it is open; `milliseconds` are there afterwards."""

    def __init__(self, url: str, token: str, path: str = "/status") -> None:
        self._argv = [sys.executable, "-m", "tests.pulse", url, token, path]
        self.milliseconds: list[float] = []

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        if self._process.stdout.readline() != READY:
            self.__exit__(None, None, None)
            raise AssertionError("the server was not there to begin with")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        told, _ = self._process.communicate(timeout=2 * LONGEST)
        self.milliseconds = json.loads(told or b"[]")

    @property
    def p95(self) -> float:
        assert self.milliseconds, "nothing was asked"
        return sorted(self.milliseconds)[int(len(self.milliseconds) * 0.95)]


def main(url: str, token: str, path: str) -> None:
    over = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        over.set()

    threading.Thread(target=wait, daemon=True).start()
    raise_priority()
    taken: list[float] = []
    headers = {"Authorization": f"Bearer {token}"}
    with httpx.Client(base_url=url, headers=headers, timeout=LONGEST, trust_env=False) as http:
        http.get(path)
        sys.stdout.buffer.write(READY)
        sys.stdout.flush()
        while not over.wait(EVERY):
            started = time.perf_counter()
            try:
                http.get(path).raise_for_status()
            except httpx.HTTPError:
                taken.append(LONGEST * 1000)
            else:
                taken.append((time.perf_counter() - started) * 1000)
    print(json.dumps(taken))


if __name__ == "__main__":
    main(*sys.argv[1:4])
