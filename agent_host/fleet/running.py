"""The runtimes that run: who has one, its console, commands beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..errors import Conflict, Unavailable
from .driver import AgentRuntime, CommandOutcome
from .hooks import FleetHooks
from .workspace import Workspace, WorkspaceQuery, Workspaces


@dataclass(frozen=True, slots=True)
class RunningAgent:
    """A runtime that runs, and what its callers need."""

    runtime: AgentRuntime
    token: str = field(repr=False)
    """The bearer token of its HTTP API."""
    watch: asyncio.Task[None]
    """Ends when the runtime has ended."""
    adopted: bool = False
    """Whether it was running before this process of the host."""
    external: bool = False
    """Whether another program runs it: it goes on when it is stopped here."""


class RunningAgents(FleetHooks):
    """The workspaces, and those of their runtimes that run."""

    def __init__(self, workspaces: Workspaces) -> None:
        super().__init__()
        self._workspaces = workspaces
        self._running: dict[str, RunningAgent] = {}

    async def list(self, query: WorkspaceQuery | None = None) -> list[Workspace]:
        """Return workspaces, by id; without a query all."""
        return await self._workspaces.list(query or WorkspaceQuery())

    async def get(self, workspace_id: str) -> Workspace:
        """Return the workspace. Raises NotFound if it does not exist."""
        return await self._workspaces.get(workspace_id)

    async def running_agent(self, workspace_id: str) -> RunningAgent:
        """Return the runtime with its token. Raises NotFound, and Conflict if it is in quarantine or does not run."""
        agent = self._running.get(workspace_id)
        if agent is None or self.is_fenced(workspace_id):
            await self.get(workspace_id)
            if self.is_fenced(workspace_id):
                raise quarantined(workspace_id)
            raise not_running(workspace_id)
        return agent

    def running_ids(self) -> Sequence[str]:
        """Return the workspaces whose runtimes run, by id."""
        return sorted(self._running)

    def is_running(self, workspace_id: str) -> bool:
        return workspace_id in self._running

    async def console(self, workspace_id: str) -> str:
        """Return the end of the runtime's output. Raises NotFound, and Conflict if it does not run."""
        return await (await self._get_runtime(workspace_id)).console()

    async def exec(self, workspace_id: str, argv: Sequence[str], timeout: float) -> CommandOutcome:  # noqa: ASYNC109
        """Run a command beside the runtime.

        Raises NotFound, Conflict if the runtime does not run, NotOffered, and Unavailable if it cannot be reached.
        """
        try:
            return await (await self._get_runtime(workspace_id)).exec(argv, timeout=timeout)
        except OSError as error:
            raise Unavailable(
                f"the runtime of {workspace_id!r} does not answer: {error}", code="unreachable"
            ) from error

    async def _get_runtime(self, workspace_id: str) -> AgentRuntime:
        await self.get(workspace_id)
        if workspace_id not in self._running:
            raise not_running(workspace_id)
        return self._running[workspace_id].runtime


def host_is_stopping() -> Unavailable:
    return Unavailable("the host is stopping and starts no more runtimes", code="draining")


def not_running(workspace_id: str) -> Conflict:
    return Conflict(f"the workspace {workspace_id!r} does not run; start it first", code="not_running")


def quarantined(workspace_id: str) -> Conflict:
    return Conflict(f"the workspace {workspace_id!r} is in quarantine", code="quarantined")
