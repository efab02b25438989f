"""A container that runs: watched, stopped and asked through its engine."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack

import structlog

from ...agent_socket import connect_agent_socket
from ...driver import CONSOLE_BYTES, DIE_WITH_PARENT, EXEC_SECONDS, CommandOutcome, P, StartFailed, Status
from ...machine import HostSockets, SocketDir
from .engine import COMMAND_SECONDS, MOST_QUOTED, run_engine
from .files import delete_secrets
from .settings import ContainerSettings

log = structlog.get_logger(__name__)
PROBE_SECONDS = 5.0
_STOP_MORE = 30.0
_WATCH_SECONDS = 1.0
_POLL_SECONDS = 0.1


class ContainerRuntime:
    url = ""

    def __init__(
        self, settings: ContainerSettings, socket_dir: SocketDir, host_sockets: HostSockets, name: str
    ) -> None:
        self._settings = settings
        self.socket_dir = socket_dir
        self._host_sockets = host_sockets
        self.name = name

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
        engine = self._settings.engine
        while True:
            ended = await run_engine(
                (*DIE_WITH_PARENT, str(os.getpid()), *engine), "wait", self.name, seconds=None, check=False
            )
            if ended.code == 0:
                return f"ended with exit code {ended.stdout.strip() or 'unknown'}"
            if not (await self.status()).running:  # else only the engine's command has failed
                return f"ended, or cannot be watched: {ended.stderr.strip()[-MOST_QUOTED:]}"
            await asyncio.sleep(_WATCH_SECONDS)

    async def stop(self, *, at_once: bool = False) -> None:
        try:
            if not at_once:
                await self._ask_to_stop()
        finally:  # also when the caller has given up
            await self._clean_up(abruptly=at_once)

    async def _ask_to_stop(self) -> None:
        grace = self._settings.stop_grace
        asked = await self._run_engine("stop", "--time", str(round(grace)), self.name, seconds=grace + _STOP_MORE)
        if asked.code != 0:
            log.warning("container_not_stopped", container=self.name, why=asked.stderr.strip()[-MOST_QUOTED:])

    async def _clean_up(self, *, abruptly: bool) -> None:
        async with AsyncExitStack() as stack:  # runs all steps, even if one fails
            stack.callback(delete_secrets, self.socket_dir.folder / "secrets")
            stack.push_async_callback(self._host_sockets.close, self.socket_dir, abruptly=abruptly)
            await self.remove()

    async def remove(self) -> None:
        """Kill and remove the container. Idempotent. Raises StartFailed if it may still be there."""
        await self._run_engine("kill", self.name)  # `rm` would ask it to stop first, and wait
        gone = await self._run_engine("rm", "--force", self.name)
        if gone.code == 0:
            return
        program = self._settings.engine[0]
        message = gone.stderr.strip()[-MOST_QUOTED:]
        left = await self._run_engine("ps", "--all", "--quiet", "--filter", f"name=^{self.name}$")
        if left.code != 0 or left.stdout.strip():
            raise StartFailed(f"the container {self.name} may still be there: {program} rm: {message}")

    async def _run_engine(self, *arguments: str, seconds: float | None = COMMAND_SECONDS) -> CommandOutcome:
        return await run_engine(self._settings.engine, *arguments, seconds=seconds, check=False)

    async def status(self) -> Status:
        shape = "{{.State.Running}} {{.State.Pid}}"
        try:
            fields = (await run_engine(self._settings.engine, "inspect", "--format", shape, self.name)).stdout.split()
        except StartFailed as error:
            return Status(False, str(error))
        running = fields[:1] == ["true"]
        return Status(running, "runs" if running else "ended", int(fields[1]) if running and len(fields) > 1 else None)

    async def connect(self, protocol: Callable[[], P]) -> P:
        return await connect_agent_socket(self.socket_dir.agent_api, protocol)

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
        await self._host_sockets.close(self.socket_dir, abruptly=True)
        await self.stop(at_once=True)
