"""Workspaces that another program boots, such as a supervisor of microVMs. The host only talks to their agents."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from ..driver import EXEC_SECONDS, CommandOutcome, LaunchRequest, NotOffered, Status

EXTERNAL = "external"


class ExternalDriver:
    """A driver that starts nothing. Its workspaces run from when the operator starts them until they are stopped."""

    def allocate_url(self) -> str:
        return ""

    def mediation_address(self, workspace_id: str) -> str | None:
        return None

    async def create(self, workspace_id: str, data_dir: Path) -> None:
        return

    async def start(self, launch: LaunchRequest) -> ExternalRuntime:
        return ExternalRuntime()


class ExternalRuntime:
    """A runtime that the host can neither watch nor stop."""

    url = ""

    async def wait(self) -> str:
        await asyncio.Event().wait()
        return "ended"  # pragma: no cover  never reached

    async def stop(self, *, at_once: bool = False) -> None:
        return

    async def status(self) -> Status:
        return Status(running=True, detail="run by another program")

    async def console(self) -> str:
        return ""

    async def exec(self, argv: Sequence[str], *, timeout: float = EXEC_SECONDS) -> CommandOutcome:  # noqa: ASYNC109
        raise NotOffered("another program runs this workspace; run commands there")

    async def quarantine(self) -> None:
        return
