"""Boots and watches runtimes, behind one driver Protocol."""

from .driver import Driver, Launch, Runtime
from .fleet import Fleet
from .process import ProcessDriver
from .routes import router
from .workspace import Workspace, Workspaces

__all__ = ["Driver", "Fleet", "Launch", "ProcessDriver", "Runtime", "Workspace", "Workspaces", "router"]
