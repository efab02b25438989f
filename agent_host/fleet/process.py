"""Runtimes as child processes. They die with the host, whatever kills it."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from .driver import Launch, StartFailed

LOG_NAME = "runtime.log"
_POLL_SECONDS = 0.02
_KILL_SECONDS = 5.0
_LOG_TAIL = 2_000  # bytes of the log that an error quotes
_PR_SET_PDEATHSIG = 1
_PASSED = frozenset({"PATH", "HOME", "USER", "LANG", "TZ", "TMPDIR", "VIRTUAL_ENV", "PYTHONPATH"})
_NEVER_PASSED = frozenset({"AGENT_LLM_BASE_URL", "AGENT_TOKEN_FILE", "AGENT_MESH_TOKEN_FILE"})
_SERVE = (sys.executable, "-m", "agent_runtime", "serve")


class ProcessDriver:
    """Starts `agent-runtime serve` on a loopback port. `command` stands in for it in tests."""

    def __init__(self, start_timeout: float, stop_grace: float, command: Sequence[str] = _SERVE) -> None:
        self._start_timeout = start_timeout
        self._stop_grace = stop_grace
        self._command = command

    def place(self) -> str:
        return f"http://127.0.0.1:{_free_port()}"

    async def start(self, launch: Launch) -> ChildRuntime:
        url = launch.url if _is_free(launch.url) else self.place()
        log = launch.data_dir / LOG_NAME
        child = ChildRuntime(url, await self._spawn(launch, url, log), self._stop_grace)
        try:
            await self._ready(child, log)
        except BaseException:
            await asyncio.shield(child.stop())
            raise
        return child

    async def _spawn(self, launch: Launch, url: str, log: Path) -> asyncio.subprocess.Process:
        launch.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        listen = {"AGENT_HOST": "127.0.0.1", "AGENT_PORT": str(urlsplit(url).port)}
        with log.open("ab") as output:
            return await asyncio.create_subprocess_exec(
                *self._command,
                env={**inherited(os.environ), **launch.environment(), **listen},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # a Ctrl-C in the host's terminal is for the host alone
                preexec_fn=_die_with_parent(),
            )

    async def _ready(self, child: ChildRuntime, log: Path) -> None:
        """Asks the child until it is ready, it has ended, or the time is up."""
        answer = "nothing yet"
        try:
            async with asyncio.timeout(self._start_timeout), httpx.AsyncClient(trust_env=False) as client:
                while child.running:
                    with contextlib.suppress(httpx.TransportError):
                        response = await client.get(f"{child.url}/readyz")
                        if response.is_success:
                            return
                        answer = response.text
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            raise StartFailed(
                f"the runtime was not ready within {self._start_timeout:g} s (MESH_START_TIMEOUT); "
                f"it answers {answer}; {_tail(log)}"
            ) from None
        raise StartFailed(f"the runtime {await child.wait()} before it was ready; {_tail(log)}")


class ChildRuntime:
    """A child process and all that it started in its process group."""

    def __init__(self, url: str, process: asyncio.subprocess.Process, stop_grace: float) -> None:
        self.url = url
        self._process = process
        self._stop_grace = stop_grace

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.returncode is None

    async def wait(self) -> str:
        code = await self._process.wait()
        return f"ended with exit code {code}" if code >= 0 else f"was ended by {signal.Signals(-code).name}"

    async def stop(self) -> None:
        if self.running:
            self._signal_group(signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), self._stop_grace)
        self._signal_group(signal.SIGKILL)  # the child if it did not listen, and whatever it left behind
        await asyncio.wait_for(self._process.wait(), _KILL_SECONDS)

    def _signal_group(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)


def inherited(environment: Mapping[str, str]) -> dict[str, str]:
    """What of the host's environment a runtime may see: where things are, and the operator's `AGENT_` settings.

    Everything else stays behind, above all keys. So do settings that would lead round the mesh, or name other tokens.
    """
    return {
        name: value
        for name, value in environment.items()
        if name in _PASSED or name.startswith("LC_") or (name.startswith("AGENT_") and name not in _NEVER_PASSED)
    }


def _die_with_parent() -> Callable[[], None] | None:
    """What the child does before it becomes the runtime: asks the kernel to be killed when the host dies."""
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None, use_errno=True)  # loaded before the fork, where little may be done safely
    return partial(_ask_to_die, libc.prctl, os.getpid())


def _ask_to_die(prctl: Callable[[int, int], int], parent: int) -> None:  # pragma: no cover  runs in the child
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the host died in between
        os._exit(1)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def _is_free(url: str) -> bool:
    try:
        socket.create_server(("127.0.0.1", urlsplit(url).port or 0)).close()
    except OSError:
        return False
    return True


def _tail(log: Path) -> str:
    text = log.read_bytes()[-_LOG_TAIL:].decode("utf-8", "replace").strip()
    return f"the end of {log}: {text}" if text else f"{log} is empty"
