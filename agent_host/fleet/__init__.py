"""Boots and watches runtimes, behind one driver Protocol."""

from .driver import Driver, Launch, Mediation, NotOffered, Outcome, Runtime, Snapshots, Status
from .drivers import drivers_of
from .external import EXTERNAL, ExternalDriver
from .fleet import Fleet
from .machine import Ways
from .process import LEASH, ProcessDriver
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
