"""A server as a child process of a test: started, awaited, stopped or killed, and always reaped."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Protocol, Self

_POLL_SECONDS = 0.01
_REAP_SECONDS = 10.0


class Child(Protocol):
    """What is used of a `subprocess.Popen`."""

    @property
    def pid(self) -> int: ...

    @property
    def returncode(self) -> int | None: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def terminate(self) -> None: ...

    def kill(self) -> None: ...


class LiveProcess:
    """Runs a command and waits until it is ready.

        with LiveProcess([sys.executable, "-m", "agent_runtime", "serve"], env={...},
                         ready_url="http://127.0.0.1:8400/healthz") as server: ...

    `env` is added to this process's own environment. Ready means that `ready_url` answers with a status below 400;
    without one, that the process was started. `timeout` bounds the start, in seconds. Output of both kinds goes to one
    file. The child leads a process group, all of which is killed at the end.
    """

    def __init__(
        self,
        argv: Sequence[str | Path],
        env: Mapping[str, str] | None = None,
        ready_url: str | None = None,
        timeout: float = 20.0,
        cwd: str | Path | None = None,
    ) -> None:
        self.argv = [str(part) for part in argv]
        self._env = {**os.environ, **(env or {})}
        self._ready_url = ready_url
        self._timeout = timeout
        self._cwd = cwd

    def __enter__(self) -> Self:
        self._log: IO[bytes] = tempfile.NamedTemporaryFile(prefix="live-process-", suffix=".log")
        self._child = self._start()
        try:
            self._wait_until_ready()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self.terminate()
        finally:
            self._end()

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def returncode(self) -> int | None:
        """The exit code: None while it runs, minus the signal's number if a signal ended it."""
        return self._child.poll()

    def output(self) -> str:
        """Return the output so far, stdout and stderr in the order of writing."""
        return Path(self._log.name).read_text("utf-8", "replace")

    def wait_for_output(self, pattern: str, timeout: float | None = None) -> re.Match[str]:
        """Block until the output matches. Raises TimeoutError, or RuntimeError if the process ends before."""
        deadline = time.monotonic() + (self._timeout if timeout is None else timeout)
        while True:
            running = self.returncode is None
            if found := re.search(pattern, self.output(), re.MULTILINE):
                return found
            self._check(running, deadline, f"output that matches {pattern!r}")
            time.sleep(_POLL_SECONDS)

    def wait(self, timeout: float) -> int:
        """Block until it ends by itself and return its exit code. Raises TimeoutError."""
        try:
            return self._child.wait(timeout)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"{self._describe()} still runs after {timeout} s") from None

    def terminate(self, timeout: float = 10.0) -> int:
        """Send SIGTERM and return the exit code; kill the process if it does not end in time."""
        if self.returncode is None:
            self._child.terminate()
        try:
            return self._child.wait(timeout)
        except subprocess.TimeoutExpired:
            return self.kill9()

    def kill9(self) -> int:
        """Kill the process but not its children, as a crash would, and return its exit code."""
        self._child.kill()
        return self._child.wait(_REAP_SECONDS)

    def _start(self) -> Child:
        return subprocess.Popen(
            self.argv,
            env=self._env,
            cwd=self._cwd,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + self._timeout
        while self._ready_url and not _answers(self._ready_url):
            self._check(self.returncode is None, deadline, f"an answer from {self._ready_url}")
            time.sleep(_POLL_SECONDS)

    def _check(self, running: bool, deadline: float, what: str) -> None:
        if not running:
            raise RuntimeError(f"{self._describe()} ended with {self.returncode} before {what}:\n{self.output()}")
        if time.monotonic() > deadline:
            raise TimeoutError(f"{self._describe()} did not give {what} in time:\n{self.output()}")

    def _describe(self) -> str:
        return " ".join(self.argv)

    def _end(self) -> None:
        # The number of a child that is reaped may be another process's by now, but not while its own group has members.
        if self._child.returncode is None or not Path(f"/proc/{self._child.pid}").exists():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait(_REAP_SECONDS)
        self._log.close()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=1.0):  # noqa: S310  the caller's own server
            return True
    except (OSError, urllib.error.URLError):
        return False
