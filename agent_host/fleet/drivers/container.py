"""Containers by podman or docker: no network, a read-only root, and the host's sockets mounted in.

The ports of a machine's vsock are files here: `{uds}_2048` on the host is `/run/mesh/v.sock_2048` inside.
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

from ..machine import EGRESS_PORT, MEDIATION_PORT, MESH_PORT, HostSockets, SocketDir
from .driver import CONSOLE_BYTES, EXEC_SECONDS, CommandOutcome, LaunchRequest, StartFailed, Status
from .process import inherited, write_secret

log = structlog.get_logger(__name__)
INSIDE = "/run/mesh"
SECRETS = "/run/secrets/agent"
_SECRETS = ("token", "mesh.token", "mediation.key")
USER = "10001:10001"
_COMMAND_SECONDS = 60.0
_MOST_OUTPUT, _MOST_SAID = 1 << 20, 500
_PIECE = 1 << 16
_REST_SECONDS = 0.5
"""For what a program has said before it ended."""
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
    """Further options of `run`."""
    options: tuple[str, ...] = ()
    """The operator's own, such as `--ulimit`; the last word is theirs."""


class ContainerDriver:
    def __init__(
        self, settings: ContainerSettings, ways: HostSockets, operator: Mapping[str, str] = os.environ
    ) -> None:
        self._settings, self._ways, self._operator = settings, ways, operator

    def place(self) -> str:
        return ""

    def mediation(self, workspace_id: str) -> str | None:
        return str(SocketDir.prepared(self._settings.run_dir, workspace_id).door(MEDIATION_PORT))

    async def create(self, workspace_id: str, data_dir: Path) -> None:
        SocketDir.prepared(self._settings.run_dir, workspace_id)
        await asyncio.to_thread(_own_folder, data_dir / "data")

    async def start(self, launch: LaunchRequest) -> ContainerRuntime:
        settings, seat = self._settings, SocketDir.of(self._settings.run_dir, launch.id)
        name = f"agent-{seat.folder.name}"
        runtime = ContainerRuntime(settings, seat, self._ways, name)
        await runtime.remove()  # what a killed host has left
        try:
            await asyncio.to_thread(_write_secrets, seat.folder / "secrets", launch)
            await self._ways.open(seat)
            await asyncio.to_thread(seat.admit, *_owner(), (MEDIATION_PORT, MESH_PORT, EGRESS_PORT))
            await engine(settings.engine, *run_arguments(settings, seat, name, launch, self._operator))
            await runtime.ready(settings.start_timeout)
        except BaseException:
            await asyncio.shield(runtime.stop(at_once=True))
            raise
        return runtime


class ContainerRuntime:
    url = ""

    def __init__(self, settings: ContainerSettings, seat: SocketDir, ways: HostSockets, name: str) -> None:
        self._settings, self._seat, self._ways, self.name = settings, seat, ways, name

    async def ready(self, seconds: float) -> None:
        """Returns when the image's own probe says that the process answers. Raises StartFailed."""
        try:
            async with asyncio.timeout(seconds):
                while (await self.exec(("agent-healthz",), timeout=ASK)).code != 0:
                    if not (await self.status()).running:
                        raise StartFailed(f"the container ended: {(await self.console())[-2000:]}")
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            said = (await self.console())[-2000:]
            raise StartFailed(
                f"the container was not ready within {seconds:g} s (MESH_START_TIMEOUT): {said}"
            ) from None

    async def wait(self) -> str:
        while True:
            ended = await self._tell("wait", self.name, seconds=None)
            if ended.code == 0:
                return f"ended with exit code {ended.stdout.strip() or 'unknown'}"
            if not (await self.status()).running:  # else it is the engine's program that has failed
                return f"ended, or cannot be watched: {ended.stderr.strip()[-_MOST_SAID:]}"
            await asyncio.sleep(_WATCH_SECONDS)

    async def stop(self, *, at_once: bool = False) -> None:
        if not at_once:
            grace = self._settings.stop_grace
            asked = await self._tell("stop", "--time", str(round(grace)), self.name, seconds=grace + _STOP_MORE)
            if asked.code != 0:
                log.warning("container_not_stopped", container=self.name, why=asked.stderr.strip()[-_MOST_SAID:])
        await self._end(abruptly=at_once)

    async def _end(self, *, abruptly: bool) -> None:
        async with AsyncExitStack() as ends:  # each of them, whatever becomes of the others
            ends.callback(_forget_secrets, self._seat.folder / "secrets")
            ends.push_async_callback(self._ways.close, self._seat, abruptly=abruptly)
            await self.remove()

    async def remove(self) -> None:
        """Kills it if it lives, and takes it away; again is a no-op. Raises StartFailed when it may still be there."""
        await self._tell("kill", self.name)  # `rm` would ask it first, and wait
        gone = await self._tell("rm", "--force", self.name)
        if gone.code == 0:
            return
        program, said = self._settings.engine[0], gone.stderr.strip()[-_MOST_SAID:]
        left = await self._tell("ps", "--all", "--quiet", "--filter", f"name=^{self.name}$")
        if left.code != 0 or left.stdout.strip():
            raise StartFailed(f"the container {self.name} may still be there: {program} rm: {said}")

    async def _tell(self, *arguments: str, seconds: float | None = _COMMAND_SECONDS) -> CommandOutcome:
        return await engine(self._settings.engine, *arguments, seconds=seconds, check=False)

    async def status(self) -> Status:
        shape = "{{.State.Running}} {{.State.Pid}}"
        try:
            said = (await engine(self._settings.engine, "inspect", "--format", shape, self.name)).stdout.split()
        except StartFailed as error:
            return Status(False, str(error))
        running = said[:1] == ["true"]
        return Status(running, "runs" if running else "ended", int(said[1]) if running and len(said) > 1 else None)

    async def console(self) -> str:
        try:
            said = await engine(self._settings.engine, "logs", "--tail", "500", self.name)
        except StartFailed as error:
            return str(error)
        return (said.stdout + said.stderr)[-CONSOLE_BYTES:]

    async def exec(self, argv: Sequence[str], *, timeout: float = EXEC_SECONDS) -> CommandOutcome:  # noqa: ASYNC109
        return await engine(self._settings.engine, "exec", self.name, *argv, seconds=timeout, check=False)

    async def quarantine(self) -> None:
        """The sockets first, with who is in them: nothing that it says from now on is heard."""
        await self._ways.close(self._seat, abruptly=True)
        await self.stop(at_once=True)


ASK = 5.0


def run_arguments(
    settings: ContainerSettings, seat: SocketDir, name: str, launch: LaunchRequest, operator: Mapping[str, str]
) -> tuple[str, ...]:
    """No network, no capability, nothing to write to but `/data` and `/tmp`. No secret stands in the arguments."""
    mounts = {
        str(seat.folder): f"{INSIDE}:ro",
        str(seat.folder / "secrets"): f"{SECRETS}:ro",
        str(launch.data_dir / "data"): "/data:rw",
    }
    env = guest_environment(launch, operator)
    return (
        *("run", "--detach", "--name", name, "--network", "none", "--read-only", "--user", USER),
        *("--cap-drop", "all", "--security-opt", "no-new-privileges", "--memory", f"{settings.memory}m"),
        *("--tmpfs", "/tmp:rw,nosuid,nodev,size=64m", *settings.limits, *settings.options),  # noqa: S108
        *(part for source, target in mounts.items() for part in ("--volume", f"{source}:{target}")),
        *(part for key, value in sorted(env.items()) for part in ("--env", f"{key}={value}")),
        settings.image,
    )


def guest_environment(launch: LaunchRequest, operator: Mapping[str, str]) -> dict[str, str]:
    """The runtime's settings inside: sockets instead of addresses, files instead of secrets."""
    mine = (
        "AGENT_HOST",
        "AGENT_PORT",
        "AGENT_DATA_DIR",
        "AGENT_ID",
        "AGENT_TOKEN",
        "AGENT_MESH_URL",
        "AGENT_MESH_TOKEN",
    )
    kept = {key: value for key, value in inherited(operator).items() if key.startswith("AGENT_") and key not in mine}
    env = {
        **kept,
        "AGENT_ID": launch.id,
        "AGENT_DATA_DIR": "/data",
        "AGENT_HOST": "127.0.0.1",
        "AGENT_TOKEN_FILE": f"{SECRETS}/token",
        "AGENT_MESH_TOKEN_FILE": f"{SECRETS}/mesh.token",
        "AGENT_MESH_URL": _http(MESH_PORT),
    }
    if launch.egress_url:
        env["AGENT_EGRESS_URL"] = _http(EGRESS_PORT)
    if launch.mediation_url:
        env["AGENT_MEDIATION_URL"] = f"unix:{INSIDE}/v.sock_{MEDIATION_PORT}"
        env["AGENT_MEDIATION_DIALECT"] = launch.mediation_dialect
        env["AGENT_MEDIATION_REQUIRED"] = str(launch.mediation_required).lower()
    if launch.mediation_key:
        env["AGENT_MEDIATION_KEY_FILE"] = f"{SECRETS}/mediation.key"
    return env


def _http(port: int) -> str:
    return f"http+unix://{quote(f'{INSIDE}/v.sock_{port}', safe='')}"


async def engine(
    program: Sequence[str], *arguments: str, seconds: float | None = _COMMAND_SECONDS, check: bool = True
) -> CommandOutcome:
    """Runs the engine's program. Raises StartFailed with what it says, when `check`ed."""
    async with _Pipe() as out, _Pipe() as err:
        try:
            made = await asyncio.create_subprocess_exec(
                *program, *arguments, stdin=asyncio.subprocess.DEVNULL, stdout=out.begin(), stderr=err.begin()
            )
        except OSError as error:
            raise StartFailed(f"{program[0]} does not start: {error}") from error
        finally:
            out.handed_over()
            err.handed_over()
        try:
            async with asyncio.timeout(seconds):
                await made.wait()
                ended = CommandOutcome(made.returncode, *await asyncio.gather(out.said(), err.said()))
        except TimeoutError:
            ended = CommandOutcome(None, "", f"it took longer than {seconds:g} s")
        finally:
            if made.returncode is None:
                made.kill()
                await made.wait()
    if check and ended.code != 0:
        raise StartFailed(f"{program[0]} {arguments[0]} failed: {ended.stderr.strip()[-_MOST_SAID:]}")
    return ended


class _Pipe:
    """What a program says, over the life of a block. Its end is not waited for: uvloop leaves the other side open in
    all that the program starts, and what watches a container lives as long as that."""

    async def __aenter__(self) -> Self:
        mine, self._theirs = os.pipe()
        reader, self._kept = asyncio.StreamReader(), b""
        protocol = asyncio.StreamReaderProtocol(reader)
        self._transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, os.fdopen(mine, "rb"))
        self._reading = asyncio.create_task(self._read(reader), name="engine-output")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._reading.cancel()
        self._transport.close()

    def begin(self) -> int:
        """The program's side."""
        return self._theirs

    def handed_over(self) -> None:
        """The program has its side, or will never have it."""
        os.close(self._theirs)

    async def said(self) -> str:
        """The last of it, once the program has ended: a guest may say more than there is room for."""
        await asyncio.wait([self._reading], timeout=_REST_SECONDS)
        return self._kept.decode("utf-8", "replace")

    async def _read(self, reader: asyncio.StreamReader) -> None:
        while part := await reader.read(_PIECE):
            self._kept = (self._kept + part)[-_MOST_OUTPUT:]


# ---------------------------------------------------------------- files


def _owner() -> tuple[int, int]:
    uid, gid = (int(part) for part in USER.split(":"))
    return uid, gid


def _own_folder(path: Path) -> None:
    """The runtime's own. It is made once and never written to by the host again: what is in there is the guest's."""
    if not path.exists():
        path.mkdir(mode=0o700, parents=True)
        if os.geteuid() == 0:
            os.chown(path, *_owner())


def _write_secrets(folder: Path, launch: LaunchRequest) -> None:
    """In a folder of the host's that is mounted read-only."""
    folder.mkdir(mode=0o755, exist_ok=True)
    _forget_secrets(folder)
    for name, text in zip(_SECRETS, (launch.token, launch.mesh_token, launch.mediation_key), strict=True):
        if text:
            write_secret(folder / name, text)
            if os.geteuid() == 0:
                os.chown(folder / name, *_owner(), follow_symlinks=False)


def _forget_secrets(folder: Path) -> None:
    for name in _SECRETS:
        (folder / name).unlink(missing_ok=True)
