"""Run runtimes in containers with podman or docker: no network, a read-only root, the host's sockets mounted in.

Unix sockets take the place of vsock ports: `{uds}_2048` on the host is `/run/mesh/v.sock_2048` in the container.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

import structlog

from ..driver import CONSOLE_BYTES, EXEC_SECONDS, CommandOutcome, LaunchRequest, StartFailed, Status
from ..machine import EGRESS_PORT, MEDIATION_PORT, MESH_PORT, HostSockets, SocketDir
from .process import inherited_env, write_secret

log = structlog.get_logger(__name__)
SOCKETS_MOUNT = "/run/mesh"
SECRETS = "/run/secrets/agent"
_SECRETS = ("token", "mesh.token", "mediation.key")
USER = "10001:10001"
_COMMAND_SECONDS = 60.0
_MOST_OUTPUT, _MOST_QUOTED = 1 << 20, 500
_PIECE = 1 << 16
_OUTPUT_SECONDS = 0.5
"""Time to read the rest of a program's output after it has ended."""
_STOP_MORE = 30.0
_WATCH_SECONDS = 1.0
_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class ContainerSettings:
    engine: tuple[str, ...]
    image: str
    run_dir: Path
    start_timeout: float
    stop_grace: float
    memory: int = 512
    """Mebibytes."""
    limits: tuple[str, ...] = ("--pids-limit", "512", "--log-opt", "max-size=1m")
    """Further options of the engine's `run`."""
    options: tuple[str, ...] = ()
    """The operator's options, such as `--ulimit`. They come last and so override all others."""


class ContainerDriver:
    def __init__(
        self, settings: ContainerSettings, host_sockets: HostSockets, operator_env: Mapping[str, str] = os.environ
    ) -> None:
        self._settings, self._host_sockets, self._operator_env = settings, host_sockets, operator_env

    def allocate_url(self) -> str:
        return ""

    def mediation_address(self, workspace_id: str) -> str | None:
        return str(SocketDir.create_for_workspace(self._settings.run_dir, workspace_id).port_socket(MEDIATION_PORT))

    async def create(self, workspace_id: str, data_dir: Path) -> None:
        SocketDir.create_for_workspace(self._settings.run_dir, workspace_id)
        await asyncio.to_thread(_make_data_dir, data_dir / "data")

    async def start(self, launch: LaunchRequest) -> ContainerRuntime:
        settings, socket_dir = self._settings, SocketDir.for_workspace(self._settings.run_dir, launch.id)
        name = f"agent-{socket_dir.folder.name}"
        runtime = ContainerRuntime(settings, socket_dir, self._host_sockets, name)
        await runtime.remove()  # left by a host that was killed
        try:
            await asyncio.to_thread(_write_secrets, socket_dir.folder / "secrets", launch)
            await self._host_sockets.open(socket_dir)
            await asyncio.to_thread(socket_dir.grant_access, *_user_ids(), (MEDIATION_PORT, MESH_PORT, EGRESS_PORT))
            await run_engine(settings.engine, *run_arguments(settings, socket_dir, name, launch, self._operator_env))
            await runtime.wait_until_ready(settings.start_timeout)
        except BaseException:
            await asyncio.shield(runtime.stop(at_once=True))
            raise
        return runtime


class ContainerRuntime:
    url = ""

    def __init__(
        self, settings: ContainerSettings, socket_dir: SocketDir, host_sockets: HostSockets, name: str
    ) -> None:
        self._settings, self._socket_dir, self._host_sockets, self.name = settings, socket_dir, host_sockets, name

    async def wait_until_ready(self, seconds: float) -> None:
        """Wait until the image's own probe says that the runtime answers. Raises StartFailed if it does not in time."""
        try:
            async with asyncio.timeout(seconds):
                while (await self.exec(("agent-healthz",), timeout=PROBE_SECONDS)).code != 0:
                    if not (await self.status()).running:
                        raise StartFailed(f"the container ended: {(await self.console())[-2000:]}")
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            output = (await self.console())[-2000:]
            raise StartFailed(
                f"the container was not ready within {seconds:g} s (MESH_START_TIMEOUT): {output}"
            ) from None

    async def wait(self) -> str:
        while True:
            ended = await self._run_engine("wait", self.name, seconds=None)
            if ended.code == 0:
                return f"ended with exit code {ended.stdout.strip() or 'unknown'}"
            if not (await self.status()).running:  # else only the engine's command has failed
                return f"ended, or cannot be watched: {ended.stderr.strip()[-_MOST_QUOTED:]}"
            await asyncio.sleep(_WATCH_SECONDS)

    async def stop(self, *, at_once: bool = False) -> None:
        if not at_once:
            grace = self._settings.stop_grace
            asked = await self._run_engine("stop", "--time", str(round(grace)), self.name, seconds=grace + _STOP_MORE)
            if asked.code != 0:
                log.warning("container_not_stopped", container=self.name, why=asked.stderr.strip()[-_MOST_QUOTED:])
        await self._clean_up(abruptly=at_once)

    async def _clean_up(self, *, abruptly: bool) -> None:
        async with AsyncExitStack() as stack:  # runs all steps, even if one fails
            stack.callback(_delete_secrets, self._socket_dir.folder / "secrets")
            stack.push_async_callback(self._host_sockets.close, self._socket_dir, abruptly=abruptly)
            await self.remove()

    async def remove(self) -> None:
        """Kill and remove the container. Idempotent. Raises StartFailed if it may still be there."""
        await self._run_engine("kill", self.name)  # `rm` would ask it to stop first, and wait
        gone = await self._run_engine("rm", "--force", self.name)
        if gone.code == 0:
            return
        program, message = self._settings.engine[0], gone.stderr.strip()[-_MOST_QUOTED:]
        left = await self._run_engine("ps", "--all", "--quiet", "--filter", f"name=^{self.name}$")
        if left.code != 0 or left.stdout.strip():
            raise StartFailed(f"the container {self.name} may still be there: {program} rm: {message}")

    async def _run_engine(self, *arguments: str, seconds: float | None = _COMMAND_SECONDS) -> CommandOutcome:
        return await run_engine(self._settings.engine, *arguments, seconds=seconds, check=False)

    async def status(self) -> Status:
        shape = "{{.State.Running}} {{.State.Pid}}"
        try:
            fields = (await run_engine(self._settings.engine, "inspect", "--format", shape, self.name)).stdout.split()
        except StartFailed as error:
            return Status(False, str(error))
        running = fields[:1] == ["true"]
        return Status(running, "runs" if running else "ended", int(fields[1]) if running and len(fields) > 1 else None)

    async def console(self) -> str:
        try:
            output = await run_engine(self._settings.engine, "logs", "--tail", "500", self.name)
        except StartFailed as error:
            return str(error)
        return (output.stdout + output.stderr)[-CONSOLE_BYTES:]

    async def exec(self, argv: Sequence[str], *, timeout: float = EXEC_SECONDS) -> CommandOutcome:  # noqa: ASYNC109
        return await run_engine(self._settings.engine, "exec", self.name, *argv, seconds=timeout, check=False)

    async def quarantine(self) -> None:
        """Close the sockets and their connections first, so that nothing that it still sends is received."""
        await self._host_sockets.close(self._socket_dir, abruptly=True)
        await self.stop(at_once=True)


PROBE_SECONDS = 5.0


def run_arguments(
    settings: ContainerSettings,
    socket_dir: SocketDir,
    name: str,
    launch: LaunchRequest,
    operator_env: Mapping[str, str],
) -> tuple[str, ...]:
    """Return the arguments of `run`: no network, no capabilities, only `/data` and `/tmp` writable, no secrets."""
    mounts = {
        str(socket_dir.folder): f"{SOCKETS_MOUNT}:ro",
        str(socket_dir.folder / "secrets"): f"{SECRETS}:ro",
        str(launch.data_dir / "data"): "/data:rw",
    }
    env = guest_environment(launch, operator_env)
    return (
        *("run", "--detach", "--name", name, "--network", "none", "--read-only", "--user", USER),
        *("--cap-drop", "all", "--security-opt", "no-new-privileges", "--memory", f"{settings.memory}m"),
        *("--tmpfs", "/tmp:rw,nosuid,nodev,size=64m", *settings.limits, *settings.options),  # noqa: S108
        *(part for source, target in mounts.items() for part in ("--volume", f"{source}:{target}")),
        *(part for key, value in sorted(env.items()) for part in ("--env", f"{key}={value}")),
        settings.image,
    )


def guest_environment(launch: LaunchRequest, operator_env: Mapping[str, str]) -> dict[str, str]:
    """Return the runtime's settings in the container, with sockets for addresses and files for secrets."""
    mine = (
        "AGENT_HOST",
        "AGENT_PORT",
        "AGENT_DATA_DIR",
        "AGENT_ID",
        "AGENT_TOKEN",
        "AGENT_MESH_URL",
        "AGENT_MESH_TOKEN",
    )
    kept = {
        key: value for key, value in inherited_env(operator_env).items() if key.startswith("AGENT_") and key not in mine
    }
    env = {
        **kept,
        "AGENT_ID": launch.id,
        "AGENT_DATA_DIR": "/data",
        "AGENT_HOST": "127.0.0.1",
        "AGENT_TOKEN_FILE": f"{SECRETS}/token",
        "AGENT_MESH_TOKEN_FILE": f"{SECRETS}/mesh.token",
        "AGENT_MESH_URL": _socket_url(MESH_PORT),
    }
    if launch.egress_url:
        env["AGENT_EGRESS_URL"] = _socket_url(EGRESS_PORT)
    if launch.mediation_url:
        env["AGENT_MEDIATION_URL"] = f"unix:{SOCKETS_MOUNT}/v.sock_{MEDIATION_PORT}"
        env["AGENT_MEDIATION_DIALECT"] = launch.mediation_dialect
        env["AGENT_MEDIATION_REQUIRED"] = str(launch.mediation_required).lower()
    if launch.mediation_key:
        env["AGENT_MEDIATION_KEY_FILE"] = f"{SECRETS}/mediation.key"
    return env


def _socket_url(port: int) -> str:
    return f"http+unix://{quote(f'{SOCKETS_MOUNT}/v.sock_{port}', safe='')}"


async def run_engine(
    program: Sequence[str], *arguments: str, seconds: float | None = _COMMAND_SECONDS, check: bool = True
) -> CommandOutcome:
    """Run a command of the engine. Raises StartFailed if it does not start, or if `check` and it fails."""
    async with _Pipe() as out, _Pipe() as err:
        try:
            made = await asyncio.create_subprocess_exec(
                *program, *arguments, stdin=asyncio.subprocess.DEVNULL, stdout=out.child_end(), stderr=err.child_end()
            )
        except OSError as error:
            raise StartFailed(f"{program[0]} does not start: {error}") from error
        finally:
            out.close_child_end()
            err.close_child_end()
        try:
            async with asyncio.timeout(seconds):
                await made.wait()
                ended = CommandOutcome(made.returncode, *await asyncio.gather(out.output(), err.output()))
        except TimeoutError:
            ended = CommandOutcome(None, "", f"it took longer than {seconds:g} s")
        finally:
            if made.returncode is None:
                made.kill()
                await made.wait()
    if check and ended.code != 0:
        raise StartFailed(f"{program[0]} {arguments[0]} failed: {ended.stderr.strip()[-_MOST_QUOTED:]}")
    return ended


class _Pipe:
    """A context manager with a pipe that keeps the last output of a program.

    It does not wait for end of file: uvloop leaves the write end open in every child of the program, and the process
    that watches a container runs as long as the container.
    """

    async def __aenter__(self) -> Self:
        mine, self._child_end = os.pipe()
        reader, self._tail = asyncio.StreamReader(), b""
        protocol = asyncio.StreamReaderProtocol(reader)
        self._transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, os.fdopen(mine, "rb"))
        self._reading = asyncio.create_task(self._read(reader), name="engine-output")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._reading.cancel()
        self._transport.close()

    def child_end(self) -> int:
        """The write end, for the program."""
        return self._child_end

    def close_child_end(self) -> None:
        """Close our copy of the write end, once the program has it or has failed to start."""
        os.close(self._child_end)

    async def output(self) -> str:
        """Return the last output. Call once the program has ended. Earlier output of a talkative guest is dropped."""
        await asyncio.wait([self._reading], timeout=_OUTPUT_SECONDS)
        return self._tail.decode("utf-8", "replace")

    async def _read(self, reader: asyncio.StreamReader) -> None:
        while part := await reader.read(_PIECE):
            self._tail = (self._tail + part)[-_MOST_OUTPUT:]


# ---------------------------------------------------------------- files


def _user_ids() -> tuple[int, int]:
    uid, gid = (int(part) for part in USER.split(":"))
    return uid, gid


def _make_data_dir(path: Path) -> None:
    """Create the runtime's data folder once. The host never writes to it afterwards, as its content is the guest's."""
    if not path.exists():
        path.mkdir(mode=0o700, parents=True)
        if os.geteuid() == 0:
            os.chown(path, *_user_ids())


def _write_secrets(folder: Path, launch: LaunchRequest) -> None:
    """Write the secrets into a folder of the host that is mounted read-only."""
    folder.mkdir(mode=0o755, exist_ok=True)
    _delete_secrets(folder)
    for name, text in zip(_SECRETS, (launch.token, launch.mesh_token, launch.mediation_key), strict=True):
        if text:
            write_secret(folder / name, text)
            if os.geteuid() == 0:
                os.chown(folder / name, *_user_ids(), follow_symlinks=False)


def _delete_secrets(folder: Path) -> None:
    for name in _SECRETS:
        (folder / name).unlink(missing_ok=True)
