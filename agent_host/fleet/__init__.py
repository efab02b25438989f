"""Boots and watches runtimes, behind one driver Protocol."""

from .drivers.driver import Driver, Launch, Mediation, NotOffered, Outcome, Runtime, Snapshots, Status
from .drivers.external import EXTERNAL, ExternalDriver
from .drivers.process import LEASH, ProcessDriver
from .drivers.registry import drivers_of
from .fleet import Fleet
from .machine import Ways
from .routes import router
from .supervisor import Supervisor
from .workspace import Workspace, Workspaces

__all__ = [
    "EXTERNAL",
    "LEASH",
    "Driver",
    "ExternalDriver",
    "Fleet",
    "Launch",
    "Mediation",
    "NotOffered",
    "Outcome",
    "ProcessDriver",
    "Runtime",
    "Snapshots",
    "Status",
    "Supervisor",
    "Ways",
    "Workspace",
    "Workspaces",
    "drivers_of",
    "router",
]
