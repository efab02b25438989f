"""Start, watch and stop runtimes, through one `Driver` protocol for all ways to run them."""

from .changes import WorkspaceChanges
from .deletion import WorkspaceDeletion
from .driver import (
    DIE_WITH_PARENT,
    AgentRuntime,
    CommandOutcome,
    Driver,
    LaunchRequest,
    Mediation,
    NotOffered,
    Status,
)
from .drivers.external import EXTERNAL, ExternalDriver
from .drivers.process import ProcessDriver
from .drivers.registry import drivers_of
from .fleet import Fleet
from .http import router
from .hung_runtimes import HungRuntimes
from .machine import HostSockets
from .restore import Restorer
from .running import RunningAgent
from .supervisor import Supervisor
from .workspace import Workspace, Workspaces

__all__ = [
    "DIE_WITH_PARENT",
    "EXTERNAL",
    "AgentRuntime",
    "CommandOutcome",
    "Driver",
    "ExternalDriver",
    "Fleet",
    "HostSockets",
    "HungRuntimes",
    "LaunchRequest",
    "Mediation",
    "NotOffered",
    "ProcessDriver",
    "Restorer",
    "RunningAgent",
    "Status",
    "Supervisor",
    "Workspace",
    "WorkspaceChanges",
    "WorkspaceDeletion",
    "Workspaces",
    "drivers_of",
    "router",
]
