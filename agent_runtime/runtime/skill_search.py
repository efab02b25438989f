"""What `mesh_client.search` of a skill finds: the same as web_search of the agent that calls it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..errors import MeshUnavailable
from ..ports import HumanRequest, ToolContext
from ..skills import SkillSearch
from ..tools import Tool, ToolGate


def skill_search(gate: ToolGate, tools: Sequence[Tool]) -> SkillSearch:
    """Let skills search as web_search does: by the same rules and counts, and with nobody to be asked."""
    web_search = next(tool for tool in tools if tool.spec.name == "web_search")

    async def search(arguments: Mapping[str, Any], context: ToolContext) -> Any:
        found = await gate.run(web_search, arguments, replace(context, interactive=False, approved=False))
        if isinstance(found, HumanRequest) or found.type == "error":
            raise MeshUnavailable(f"search: {found.reason if isinstance(found, HumanRequest) else found.error_text}")
        return found.data["results"]

    return search
