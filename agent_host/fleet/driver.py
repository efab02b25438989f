"""The seam between the fleet and the ways to run a runtime: a process, a container, a microVM.

A driver makes places and starts runtimes; what was started is a `Runtime`, by which it is watched, asked and ended.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypedDict, runtime_checkable

from ..errors import AgentRuntimeError, RequestError

CONSOLE_BYTES = 64 << 10
"""What `console` gives at most: the end of what was said."""
EXEC_SECONDS = 25.0
DIE_WITH_PARENT = (sys.executable, "-I", "-S", str(Path(__file__).with_name("die_with_parent.py")))
"""Put before a command, with the process id of the host: the command ends when the host does."""


class StartFailed(AgentRuntimeError):
    """The runtime did not get ready."""


class StopFailed(RequestError):
    """The runtime does not end."""

    status = 502
    code = "stop_failed"


class NotOffered(RequestError):
    """This driver cannot do that."""

    status = 501
    code = "not_offered"


class Mediation(TypedDict, total=False):
    """What of a Launch leads its runtime to its mediation channel; empty where there is none."""

    mediation_url: str
    mediation_key: str
    mediation_dialect: str
    mediation_required: bool


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """What a driver needs to know to start one runtime."""

    id: str
    url: str
    """Where it should be reached; a driver takes another place when this one is taken."""
    data_dir: Path
    token: str = field(repr=False)
    """What its callers must send."""
    mesh_url: str
    mesh_token: str = field(repr=False)
    egress_url: str | None = None
    """The forward proxy that is its way to the web; none: it has no other way than its own."""
    mediation_url: str | None = None
    """Where it finds the mediation channel."""
    mediation_key: str | None = field(default=None, repr=False)
    """What it proves itself with there; it reads it from `key_file`."""
    mediation_dialect: str = "strict"
    mediation_required: bool = False
    """It fails closed while it has no channel."""

    @property
    def key_file(self) -> Path:
        return self.data_dir / "mediation.key"

    def environment(self) -> Mapping[str, str]:
        """The runtime's own settings; where it listens is added by the driver."""
        given = {"AGENT_EGRESS_URL": self.egress_url} if self.egress_url else {}
        if self.mediation_url:
            given |= {"AGENT_MEDIATION_URL": self.mediation_url, "AGENT_MEDIATION_DIALECT": self.mediation_dialect}
        if self.mediation_required:
            given["AGENT_MEDIATION_REQUIRED"] = "true"
        if self.mediation_key:
            given["AGENT_MEDIATION_KEY_FILE"] = str(self.key_file)
        return {
            **given,
            "AGENT_ID": self.id,
            "AGENT_DATA_DIR": str(self.data_dir),
            "AGENT_TOKEN": self.token,
            "AGENT_MESH_URL": self.mesh_url,
            "AGENT_MESH_TOKEN": self.mesh_token,
        }


@dataclass(frozen=True, slots=True)
class Status:
    """What a driver can tell of a runtime without asking it."""

    running: bool
    detail: str
    pid: int | None = None
    """Of the process that stands for it on this machine."""


@dataclass(frozen=True, slots=True)
class CommandOutcome:
    """How a command in a runtime's place has ended."""

    code: int | None
    """None: it took too long and was ended."""
    stdout: str
    stderr: str


class AgentRuntime(Protocol):
    """A runtime that was started."""

    @property
    def url(self) -> str: ...

    async def wait(self) -> str:
        """Returns when it has ended, with how it ended, in words."""
        ...

    async def stop(self, *, at_once: bool = False) -> None:
        """Ends it: first asks, unless it is to end at once, then insists. Nothing when it has ended already. Raises
        StartFailed and OSError when it may still be there."""
        ...

    async def status(self) -> Status: ...

    async def console(self) -> str:
        """The end of what it has said, in this life or the one before. It is the guest's: believe nothing of it."""
        ...

    async def exec(self, argv: Sequence[str], *, timeout: float = EXEC_SECONDS) -> CommandOutcome:  # noqa: ASYNC109
        """Runs a command beside it. Raises NotOffered, and OSError when its place cannot be reached."""
        ...

    async def quarantine(self) -> None:
        """Cuts every way in and out, without a word to the guest, then ends it. Its data stays."""
        ...


@runtime_checkable
class RuntimeSnapshots(Protocol):
    """A runtime whose memory can be written down."""

    async def snapshot(self, folder: Path) -> None:
        """Pauses it, writes it into the folder, lets it go on; its connections break. Raises StartFailed, OSError."""
        ...


class Driver(Protocol):
    """One way to run runtimes."""

    def allocate_url(self) -> str:
        """A URL where a new runtime can be reached; empty where it has no HTTP face that the host can reach."""
        ...

    def mediation_address(self, workspace_id: str) -> str | None:
        """The address of its own to which such a runtime comes for work; none: it comes where all do."""
        ...

    async def create(self, workspace_id: str, data_dir: Path) -> None:
        """Makes what outlives each life of the runtime; what is there stays as it is. Raises StartFailed."""
        ...

    async def start(self, launch: LaunchRequest) -> AgentRuntime:
        """Returns when the runtime is ready. Raises StartFailed, and then nothing of it is left."""
        ...
