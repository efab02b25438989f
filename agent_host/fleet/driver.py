"""The interface between the fleet and the ways to run a runtime: as a process, a container or a microVM.

A `Driver` prepares workspaces and starts runtimes. The fleet watches and stops a started runtime as `AgentRuntime`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence, Set
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypedDict, TypeVar, runtime_checkable

from ..errors import AgentRuntimeError, RequestError

P = TypeVar("P", bound=asyncio.Protocol)
CONSOLE_BYTES = 64 << 10
"""Most bytes that `console` returns, from the end of the output."""
EXEC_SECONDS = 25.0
DIE_WITH_PARENT = (sys.executable, "-I", "-S", str(Path(__file__).with_name("die_with_parent.py")))
"""Prefix of a command, followed by the host's process id: the command is killed when the host dies."""


SETTINGS_OF_DRIVERS = {
    "container": "MESH_CONTAINER_IMAGE",
    "firecracker": "MESH_VM_IMAGE and MESH_FIRECRACKER",
    "microagent": "MESH_MICROAGENT",
    "qemu": "MESH_VM_IMAGE",
}
"""Without them the host has no such driver."""


class StartFailed(AgentRuntimeError):
    """The runtime did not become ready."""


class StopFailed(RequestError):
    """The runtime could not be stopped."""

    status = 502
    code = "stop_failed"


class NotOffered(RequestError):
    """The driver does not support the operation."""

    status = 501
    code = "not_offered"


class Mediation(TypedDict, total=False):
    """The fields of a LaunchRequest that concern the mediation channel; empty if there is none."""

    mediation_url: str
    mediation_key: str
    mediation_dialect: str
    mediation_required: bool


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """Everything that a driver needs to start one runtime."""

    id: str
    url: str
    """The preferred URL of the runtime's HTTP server. A driver chooses another if this one is in use."""
    data_dir: Path
    token: str = field(repr=False)
    """The bearer token that callers of the runtime must send."""
    mesh_url: str
    mesh_token: str = field(repr=False)
    egress_url: str | None = None
    """The forward proxy for the runtime's web access; None means that it uses its own network."""
    mediation_url: str | None = None
    """The address of the mediation channel, or None."""
    mediation_key: str | None = field(default=None, repr=False)
    """The key that proves the agent's identity on the channel, passed in `key_file`; None without authentication."""
    mediation_dialect: str = "strict"
    mediation_required: bool = False
    """Whether the agent performs no side effects while the channel is down."""
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    """Variables that the workspace's creator has chosen. They replace the operator's, and none of the host's own."""

    @property
    def key_file(self) -> Path:
        return self.data_dir / "mediation.key"

    def environment(self) -> Mapping[str, str]:
        """Return the runtime's settings as environment variables. The driver adds the address to listen on."""
        given = {"AGENT_EGRESS_URL": self.egress_url} if self.egress_url else {}
        if self.mediation_url:
            given |= {"AGENT_MEDIATION_URL": self.mediation_url, "AGENT_MEDIATION_DIALECT": self.mediation_dialect}
        if self.mediation_required:
            given["AGENT_MEDIATION_REQUIRED"] = "true"
        if self.mediation_key:
            given["AGENT_MEDIATION_KEY_FILE"] = str(self.key_file)
        return {
            **self.settings,
            **given,
            "AGENT_ID": self.id,
            "AGENT_DATA_DIR": str(self.data_dir),
            "AGENT_TOKEN": self.token,
            "AGENT_MESH_URL": self.mesh_url,
            "AGENT_MESH_TOKEN": self.mesh_token,
        }


@dataclass(frozen=True, slots=True)
class Status:
    """What a driver knows about a runtime without asking it."""

    running: bool
    detail: str
    pid: int | None = None
    """Process id of the runtime on this machine, or None."""


@dataclass(frozen=True, slots=True)
class CommandOutcome:
    """The outcome of a command that was run beside a runtime."""

    code: int | None
    """The exit code; None if the command took too long and was killed."""
    stdout: str
    stderr: str


class AgentRuntime(Protocol):
    """A runtime that a driver has started."""

    @property
    def url(self) -> str: ...

    async def wait(self) -> str:
        """Wait until the runtime has ended, and return how it ended, as a phrase for `the runtime ...`."""
        ...

    async def stop(self, *, at_once: bool = False) -> None:
        """Stop the runtime: ask first, unless `at_once`, then kill. No effect if it has ended already.

        Raises StartFailed or OSError if it may still be running.
        """
        ...

    async def status(self) -> Status: ...

    async def console(self) -> str:
        """Return the end of the runtime's output, of this run or the previous one. It is untrusted."""
        ...

    async def connect(self, protocol: Callable[[], P]) -> P:
        """Open a connection to the agent's HTTP server, and return its protocol. Raises NotOffered, and OSError."""
        ...

    async def exec(self, argv: Sequence[str], *, timeout: float = EXEC_SECONDS) -> CommandOutcome:  # noqa: ASYNC109
        """Run a command beside the runtime. Raises NotOffered, and OSError if the runtime cannot be reached."""
        ...

    async def quarantine(self) -> None:
        """Cut all connections of the runtime without notice to the guest, then kill it. Its data stays."""
        ...


@runtime_checkable
class PausableRuntime(Protocol):
    """A runtime whose machine may be paused from outside, which `wait` notices."""

    on_paused: Callable[[bool], None]
    """Called with True when the machine was paused, with False when it runs again or `wait` ends."""


@asynccontextmanager
async def ended_on_failure(runtime: AgentRuntime) -> AsyncGenerator[None]:
    """End the runtime if the block fails or is cancelled."""
    try:
        yield
    except BaseException:
        await asyncio.shield(runtime.stop(at_once=True))
        raise


class Driver(Protocol):
    """One way to run runtimes."""

    @property
    def passes_settings(self) -> bool:
        """Whether the `settings` of a LaunchRequest reach the runtime."""
        ...

    @property
    def sees_host_files(self) -> bool:
        """Whether the runtime can work in a folder of this machine."""
        ...

    def allocate_url(self) -> str:
        """Return a URL for a new runtime's HTTP server; empty if the host cannot reach that server."""
        ...

    def mediation_address(self, workspace_id: str) -> str | None:
        """Return the workspace's own address for mediation, or None if its agent uses the shared one."""
        ...

    async def create(self, workspace_id: str, data_dir: Path) -> None:
        """Create what the runtime keeps between runs; what exists stays as it is. Raises StartFailed if that fails."""
        ...

    async def remove(self, workspace_id: str) -> Path | None:
        """End what an earlier host may have left of the workspace's runtime, before the workspace is deleted.

        Returns the folder that the workspace has beside its data folder, or None. Raises StartFailed if a runtime may
        still be there.
        """
        ...

    async def start(self, launch: LaunchRequest) -> AgentRuntime:
        """Start the runtime, and return once it is ready. Raises StartFailed, with nothing left running."""
        ...


@runtime_checkable
class OrphanAdopter(Protocol):
    """A driver whose runtimes outlive the host's process, so that its next process can take them up."""

    async def find_orphans(self) -> Set[str]:
        """Return the workspaces of this host that have a runtime, whichever process of the host has started it.

        Raises StartFailed or OSError.
        """
        ...

    async def open_sockets(self, workspace_id: str) -> None:
        """Open the host's sockets for a runtime that may still run, before it is adopted: its model calls do not wait
        for long. Raises OSError."""
        ...

    async def adopt(self, workspace_id: str, data_dir: Path) -> AgentRuntime | None:
        """Take up the runtime that an earlier process has started, and return it once it is ready. None: it has ended.

        Raises StartFailed or OSError if it cannot be taken up. `start` then ends what is left of it.
        """
        ...

    async def end_orphan(self, workspace_id: str) -> None:
        """End the runtime that an earlier process has started. Idempotent. Raises StartFailed or OSError if it may go
        on."""
        ...
