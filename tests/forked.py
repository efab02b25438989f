"""Start servers as copies of one process that has loaded their modules: a start takes 0.4 s of the processor, not 1.9.

A copy is a process of its own, with its environment, folder, output and group. Only where many tests run side by side
are servers started so. A test that runs alone starts the command itself, and so do those that measure the machine.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import subprocess
import sys
from importlib import import_module
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from agent_testing import LiveProcess
from agent_testing.process import Child
from tests.measured import MEASURED

_PYTHON = [sys.executable, "-m"]
_CONTEXT = multiprocessing.get_context("forkserver")
_PRELOADED = "tests.preloaded"
_CONTEXT.set_forkserver_preload([_PRELOADED])


class ForkedProcess(LiveProcess):
    """Runs `python -m agent_runtime ...` or `python -m agent_host ...`; any other command as it is."""

    def _start(self) -> Child:
        if "PYTEST_XDIST_WORKER" not in os.environ or MEASURED.keys() & self._env.keys() or self.argv[:2] != _PYTHON:
            return super()._start()
        folder = Path(self._cwd or "").absolute()
        process = _CONTEXT.Process(target=_run, args=(self.argv[2:], self._env, folder, self._log.name))
        process.start()
        return _Copy(process)


class _Copy:
    """A copy by the names that a `subprocess.Popen` has."""

    def __init__(self, process: ForkServerProcess) -> None:
        assert process.pid is not None
        self.pid = process.pid
        self._process = process

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if (code := self._process.exitcode) is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        return code

    def terminate(self) -> None:
        self._process.terminate()

    def kill(self) -> None:
        self._process.kill()


def _run(command: list[str], environment: dict[str, str], folder: Path, log: str) -> None:
    """What the copy does: take the place of the command, and become it."""
    import_module(_PRELOADED)  # done already, unless it failed, of which a forkserver says nothing
    os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for target, path, flags in ((0, os.devnull, os.O_RDONLY), (1, log, os.O_WRONLY), (2, log, os.O_WRONLY)):
        opened = os.open(path, flags | os.O_APPEND)
        os.dup2(opened, target)
        os.close(opened)
    sys.argv = command
    runpy.run_module(command[0], run_name="__main__", alter_sys=True)
