"""Start a host that outlives the command, and stop it."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from time import monotonic

from ..errors import CliError
from ..host_lock import RunningHost, is_locked, running_host
from .model_choice import VARIABLES, ModelChoice
from .operator_token import ensure_operator_token

LOG_NAME = "host.log"
START_SECONDS = 60.0
STOP_SECONDS = 60.0
"""A host gives its runtimes 15 s, and model calls under way 5 s."""
_POLL_SECONDS = 0.05
_TAIL_BYTES = 2_000
_PORT = 8420
_LISTENER_PORT = 9900
"""The host's own, where nothing else is set."""
_REPLACED = frozenset({"MESH_ADMIN_TOKEN", "MESH_PROVIDER"}) | {
    f"{name}_{what}" for name in VARIABLES.values() for what in ("API_KEY", "BASE_URL", "MODEL")
}
_OURS = frozenset({"AGENT_URL", "AGENT_TOKEN", "AGENT_TOKEN_FILE", "AGENT_CONTEXT"})
"""Variables of this command, which a runtime would take for its own."""


async def start_host(folder: Path, choice: ModelChoice) -> RunningHost:
    """Start a host, and return it once it is ready. Raises CliError with the end of its log if it ends or takes too
    long; it does not stay then."""
    if find_spec("agent_host") is None:
        raise CliError("the host is not installed", "install the wheel with its extra host (docs/how-to/install.md)")
    token_file = ensure_operator_token(folder)
    child = _spawn(folder, _environment(folder, choice, token_file))
    try:
        return await _ready_host(folder, child)
    except BaseException:
        if child.poll() is None:
            child.terminate()
        raise


def _environment(folder: Path, choice: ModelChoice, token_file: Path) -> Mapping[str, str]:
    dropped = _OURS | _REPLACED | {f"{name}_FILE" for name in _REPLACED}
    given = {name: value for name, value in os.environ.items() if name not in dropped}
    ports: dict[str, str] = {}
    if "MESH_PORT" not in given and "MESH_HOST" not in given and _is_taken(_PORT):
        ports["MESH_PORT"] = "0"
    if "MESH_LISTENER_URL" not in given and _is_taken(_LISTENER_PORT):
        ports["MESH_LISTENER_URL"] = "tcp://127.0.0.1:0"
    ours = {"MESH_DATA_DIR": str(folder), "MESH_ADMIN_TOKEN_FILE": str(token_file), "MESH_LOG_FORMAT": "text"}
    return {**ours, **given, **ports, **choice.environment(folder), "MESH_ADMIN_TOKEN_FILE": str(token_file)}


def why_there(host: RunningHost) -> str:
    """Return in words why a host that was started here is not at the port that is written everywhere."""
    chosen = "MESH_PORT" in os.environ or "MESH_HOST" in os.environ
    return "" if chosen or host.url.endswith(f":{_PORT}") else f", because another program has port {_PORT}"


def _is_taken(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False


def _spawn(folder: Path, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    path = folder / LOG_NAME
    try:
        with suppress(FileNotFoundError):
            path.replace(path.with_name(f"{LOG_NAME}.1"))
        log = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise CliError(f"{path}: cannot be written: {error.strerror}", "MESH_DATA_DIR names another folder") from error
    try:
        return subprocess.Popen(
            # -P: no module of the current folder, which may come from anywhere, takes the place of the host's.
            [sys.executable, "-P", "-m", "agent_host", "up"],
            env=environment,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # it outlives this terminal
        )
    finally:
        os.close(log)


async def _ready_host(folder: Path, child: subprocess.Popen[bytes]) -> RunningHost:
    deadline = monotonic() + START_SECONDS
    while monotonic() < deadline:
        host = running_host(folder)
        if host is not None and await _answers(host):
            return host
        if child.poll() is not None and not is_locked(folder):  # locked: another `agent up` was faster
            ended = f"the host ended with exit code {child.returncode}"
            raise CliError(ended, "its log says why", output=log_tail(folder))
        await asyncio.sleep(_POLL_SECONDS)
    raise CliError(f"the host was not ready within {START_SECONDS:g} s", output=log_tail(folder))


async def _answers(host: RunningHost) -> bool:
    import httpx2

    with suppress(httpx2.HTTPError):
        async with httpx2.AsyncClient(trust_env=False, timeout=5) as client:
            return (await client.get(f"{host.url}/readyz")).is_success
    return False


def log_tail(folder: Path) -> str:
    """Return the end of the log of the host that was started last, with the path."""
    path = folder / LOG_NAME
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            text = file.read().decode("utf-8", "replace").strip()
    except OSError as error:
        return f"{path}: cannot be read: {error.strerror}"
    return f"the end of {path}:\n{text}" if text else f"{path} is empty"


async def stop_host(folder: Path) -> RunningHost | None:
    """Stop the host and its agents, and return which it was; None if none runs. Raises CliError."""
    host = running_host(folder)
    if host is None:
        return None
    try:
        os.kill(host.pid, signal.SIGTERM)
    except OSError as error:
        raise CliError(f"the host, process {host.pid}, cannot be stopped: {error.strerror}") from error
    deadline = monotonic() + STOP_SECONDS
    while monotonic() < deadline:
        if not is_locked(folder):
            return host
        await asyncio.sleep(_POLL_SECONDS)
    raise CliError(f"the host, process {host.pid}, still runs after {STOP_SECONDS:g} s", f"kill -9 {host.pid} ends it")
