"""Workspaces that another program boots, such as a supervisor of microVMs. The host only talks to their agents."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from ..driver import EXEC_SECONDS, CommandOutcome, LaunchRequest, NotOffered, P, Status

EXTERNAL = "external"


class ConnectAgent(Protocol):
    """Opens a connection to the HTTP API of a workspace's agent. Raises RequestError and OSError."""

    async def __call__(self, workspace: str, protocol: Callable[[], P], /) -> P: ...


async def _connect_none(_workspace: str, _protocol: Callable[[], P], /) -> P:
    raise NotOffered("this host has no way to agents that other programs run")


class ExternalDriver:
    """A driver that starts nothing. Its workspaces run from when the operator starts them until they are stopped."""

    passes_settings = False
    sees_host_files = False

    def __init__(self) -> None:
        self.connect_agent: ConnectAgent = _connect_none
        """Set by the composition root: the agents open connections over their channels."""

    def allocate_url(self) -> str:
        return ""

    def mediation_address(self, workspace_id: str) -> str | None:
        return None

    async def create(self, workspace_id: str, data_dir: Path) -> None:
        return

    async def remove(self, workspace_id: str) -> Path | None:
        return None

    async def start(self, launch: LaunchRequest) -> ExternalRuntime:
        return ExternalRuntime(launch.id, self.connect_agent)


class ExternalRuntime:
    """A runtime that the host can neither watch nor stop."""

    url = ""

    def __init__(self, workspace: str, connect_agent: ConnectAgent) -> None:
        self._workspace = workspace
        self._connect_agent = connect_agent

    async def wait(self) -> str:
        await asyncio.Event().wait()
        return "ended"  # pragma: no cover  never reached

    async def stop(self, *, at_once: bool = False) -> None:
        return

    async def status(self) -> Status:
        return Status(running=True, detail="run by another program")

    async def connect(self, protocol: Callable[[], P]) -> P:
        return await self._connect_agent(self._workspace, protocol)

    async def console(self) -> str:
        return ""

    async def exec(self, argv: Sequence[str], *, timeout: float = EXEC_SECONDS) -> CommandOutcome:  # noqa: ASYNC109
        raise NotOffered("another program runs this workspace; run commands there")

    async def quarantine(self) -> None:
        return
