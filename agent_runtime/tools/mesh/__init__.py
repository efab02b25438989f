"""Tools of source `mesh`: what the host keeps for the agents of a team."""

from __future__ import annotations

from collections.abc import Callable

from ...ports import TeamRequests
from ...workspace import FileBackups, PathLocks
from ..core.contract import Tool
from ..files.quota import QuotaCheck
from .ask_agent import ask_agent_tool
from .blackboard import list_blackboard_tool, read_blackboard_tool, write_blackboard_tool
from .claim import claim_tool
from .get_artifact import get_artifact_tool, list_artifacts_tool
from .hand_off import hand_off_tool
from .list_agents import list_agents_tool
from .publish import publish_event_tool
from .save_artifact import save_artifact_tool
from .service import call_service_tool
from .subscribe import subscribe_tool

__all__ = ["mesh_tools"]


def mesh_tools(
    team: TeamRequests, locks: PathLocks, quota: QuotaCheck, backups: FileBackups, on_subscribe: Callable[[], None]
) -> tuple[Tool, ...]:
    """`on_subscribe` is called whenever a session may have subscribed to a topic."""
    return (
        read_blackboard_tool(team),
        list_blackboard_tool(team),
        write_blackboard_tool(team),
        claim_tool(team),
        publish_event_tool(team),
        subscribe_tool(team, on_subscribe),
        save_artifact_tool(team),
        get_artifact_tool(team, locks, quota, backups),
        list_artifacts_tool(team),
        call_service_tool(team),
        list_agents_tool(team),
        ask_agent_tool(team),
        hand_off_tool(team),
    )
