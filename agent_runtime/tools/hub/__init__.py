"""Tools of source `hub`: other agents of the host."""

from __future__ import annotations

from ...ports import HubAccess
from ..core.contract import Tool
from .delegate import delegate_tool
from .peers import peers_tool
from .say import say_tool
from .sessions import sessions_tool

__all__ = ["hub_tools"]


def hub_tools(hub: HubAccess) -> tuple[Tool, ...]:
    return (peers_tool(hub), delegate_tool(hub), say_tool(hub), sessions_tool(hub))
