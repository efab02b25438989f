"""Run runtimes as child processes, which are killed when the host dies in any way."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import httpx2

from agent_common.net import NAMING_VARIABLES, Tcp, connect

from ..console import Console
from ..driver import (
    CONSOLE_BYTES,
    DIE_WITH_PARENT,
    EXEC_SECONDS,
    CommandOutcome,
    LaunchRequest,
    NotOffered,
    P,
    StartFailed,
    Status,
)
from ..process_group import signal_group
from .mcp_variables import mcp_variables

LOG_NAME = "runtime.log"
_POLL_SECONDS = 0.02
_KILL_SECONDS = 5.0
_LOG_TAIL = 2_000  # bytes of the log that an error quotes
_ANSWER_BYTES = 500  # of an answer that an error quotes
_PASSED = frozenset({"PATH", "HOME", "USER", "LANG", "TZ", "TMPDIR", "VIRTUAL_ENV", "PYTHONPATH", *NAMING_VARIABLES})
_NEVER_PASSED = frozenset(
    {
        "AGENT_LLM_BASE_URL",
        "AGENT_WORKSPACE_DIR",
        "AGENT_EGRESS_URL",
        "AGENT_TOKEN_FILE",
        "AGENT_MESH_TOKEN_FILE",
        "AGENT_MEDIATION_URL",
        "AGENT_MEDIATION_KEY_FILE",
    }
)
_SERVE = (sys.executable, "-m", "agent_runtime", "serve")


class ProcessDriver:
    """Starts `agent-runtime serve` on a loopback port. Tests pass another `command`.

    `withheld`: variables with keys that the host uses, beside those of its settings.
    """

    passes_settings = True
    sees_host_files = True

    def __init__(
        self,
        start_timeout: float,
        stop_grace: float,
        command: Sequence[str] = _SERVE,
        *,
        withheld: Collection[str] = (),
    ) -> None:
        self._start_timeout = start_timeout
        self._stop_grace = stop_grace
        self._command = command
        self._withheld = withheld

    def allocate_url(self) -> str:
        return f"http://127.0.0.1:{_free_port()}"

    def mediation_address(self, workspace_id: str) -> str | None:
        return None

    async def create(self, workspace_id: str, data_dir: Path) -> None:
        return

    async def remove(self, workspace_id: str) -> Path | None:
        return None

    async def start(self, launch: LaunchRequest) -> ChildRuntime:
        url = launch.url if _port_is_free(launch.url) else self.allocate_url()
        launch.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        if launch.mediation_key:
            write_secret(launch.key_file, launch.mediation_key)
        log = Console(launch.data_dir / LOG_NAME)
        log.begin()
        child = ChildRuntime(url, await self._spawn(launch, url, log), self._stop_grace, log)
        try:
            await self._wait_until_ready(child, log)
        except BaseException:
            await asyncio.shield(child.stop())
            raise
        return child

    async def _spawn(self, launch: LaunchRequest, url: str, log: Console) -> asyncio.subprocess.Process:
        """Start the process. Its output comes through a pipe, because a file of its own would have no limit."""
        listen = {"AGENT_HOST": "127.0.0.1", "AGENT_PORT": str(urlsplit(url).port)}
        given = {**inherited_env(os.environ), **launch.environment(), **listen}
        servers = mcp_variables(launch.data_dir, os.environ, given, self._withheld)
        read_end, write_end = os.pipe()  # asyncio's own would have to end before the process counts as ended
        try:
            await log.follow_pipe(read_end)
            return await asyncio.create_subprocess_exec(
                *DIE_WITH_PARENT,
                str(os.getpid()),
                *self._command,
                env={**servers, **given},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=write_end,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,  # a Ctrl-C in the host's terminal must not reach it
            )
        except BaseException:
            await log.close()
            raise
        finally:
            os.close(write_end)

    async def _wait_until_ready(self, child: ChildRuntime, log: Console) -> None:
        """Poll the child until it is ready. Raises StartFailed if it ends first, or is not ready in time."""
        answer = "nothing yet"
        try:
            async with asyncio.timeout(self._start_timeout), httpx2.AsyncClient(trust_env=False) as client:
                while child.running:
                    is_ready, answer = await _ask_readiness(client, child.url, answer)
                    if is_ready:
                        return
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            raise StartFailed(
                f"the runtime was not ready within {self._start_timeout:g} s (MESH_START_TIMEOUT); "
                f"its last answer: {answer}; {_quote_tail(log)}"
            ) from None
        ended = await child.wait()
        reason = f"the runtime {ended} before it was ready"
        tail = log.read_tail(_LOG_TAIL, this_run=True).strip()
        raise StartFailed(f"{tail}\n{reason}; its log is {log.path}" if tail else f"{reason}; {log.path} is empty")


async def _ask_readiness(client: httpx2.AsyncClient, url: str, before: str) -> tuple[bool, str]:
    """Return whether the runtime is ready, and the beginning of its answer; `before` if it gave none."""
    with contextlib.suppress(httpx2.TransportError):
        async with client.stream("GET", f"{url}/readyz") as response:
            return response.is_success, await _begin_of(response)
    return False, before


class ChildRuntime:
    """A child process, with all processes of its process group."""

    def __init__(self, url: str, process: asyncio.subprocess.Process, stop_grace: float, log: Console) -> None:
        self.url = url
        self._log = log
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
        await self._log.close()
        return f"ended with exit code {code}" if code >= 0 else f"was ended by {signal.Signals(-code).name}"

    async def stop(self, *, at_once: bool = False) -> None:
        try:
            if self.running and not at_once:
                signal_group(self._process, signal.SIGTERM)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._process.wait(), self._stop_grace)
        finally:  # also when the caller has given up
            signal_group(self._process, signal.SIGKILL)  # the child if it still runs, and processes that it left
        await asyncio.wait_for(self._process.wait(), _KILL_SECONDS)
        await self._log.close()

    async def status(self) -> Status:
        return Status(self.running, "runs" if self.running else await self.wait(), self.pid)

    async def connect(self, protocol: Callable[[], P]) -> P:
        parts = urlsplit(self.url)
        return (await connect(protocol, Tcp(parts.hostname or "", parts.port or 0)))[1]

    async def console(self) -> str:
        return await asyncio.to_thread(self._log.read_tail, CONSOLE_BYTES)

    async def exec(self, argv: Sequence[str], *, timeout: float = EXEC_SECONDS) -> CommandOutcome:  # noqa: ASYNC109
        raise NotOffered("the runtime is a plain process; run the command on this machine")

    async def quarantine(self) -> None:
        await self.stop(at_once=True)


def inherited_env(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the part of the host's environment that a runtime may see: paths, locale and `AGENT_` settings.

    Everything else is left out, above all keys, and also settings that would bypass the mesh or set other tokens. What
    its MCP servers need is in `mcp_variables`.
    """
    return {
        name: value
        for name, value in environment.items()
        if name in _PASSED or name.startswith("LC_") or (name.startswith("AGENT_") and name not in _NEVER_PASSED)
    }


def write_secret(path: Path, key: str) -> None:
    """Write a file that only its owner can read. Symbolic links are not followed, as the runtime owns the folder."""
    handle = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "w") as file:
        os.fchmod(handle, 0o600)
        file.write(key)


async def _begin_of(response: httpx2.Response) -> str:
    """Return the beginning of an answer. What runs in the child may send one without end."""
    async for piece in response.aiter_raw(_ANSWER_BYTES):
        return piece.decode("utf-8", "replace")
    return ""


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def _port_is_free(url: str) -> bool:
    try:
        socket.create_server(("127.0.0.1", urlsplit(url).port or 0)).close()
    except OSError:
        return False
    return True


def _quote_tail(log: Console) -> str:
    text = log.read_tail(_LOG_TAIL, this_run=True).strip()
    return f"the end of {log.path}: {text}" if text else f"{log.path} is empty"
