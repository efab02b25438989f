"""The seam between the fleet and the ways to run a runtime: a process, later a container or a microVM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ..errors import AgentRuntimeError


class StartFailed(AgentRuntimeError):
    """The runtime did not get ready."""


@dataclass(frozen=True, slots=True)
class Launch:
    """What a driver needs to know to start one runtime."""

    id: str
    url: str
    """Where it should be reached; a driver takes another place when this one is taken."""
    data_dir: Path
    token: str = field(repr=False)
    """What its callers must send."""
    mesh_url: str
    mesh_token: str = field(repr=False)

    def environment(self) -> Mapping[str, str]:
        """The runtime's own settings; where it listens is added by the driver."""
        return {
            "AGENT_ID": self.id,
            "AGENT_DATA_DIR": str(self.data_dir),
            "AGENT_TOKEN": self.token,
            "AGENT_MESH_URL": self.mesh_url,
            "AGENT_MESH_TOKEN": self.mesh_token,
        }


class Runtime(Protocol):
    """A runtime that was started."""

    @property
    def url(self) -> str: ...

    async def wait(self) -> str:
        """Returns when it has ended, with how it ended, in words."""
        ...

    async def stop(self) -> None:
        """Ends it: first asks, then insists. Does nothing when it has ended already."""
        ...


class Driver(Protocol):
    """One way to run runtimes."""

    def place(self) -> str:
        """A URL where a new runtime can be reached."""
        ...

    async def start(self, launch: Launch) -> Runtime:
        """Returns when the runtime is ready. Raises StartFailed, and then nothing of it is left."""
        ...
