"""What a skill asks of the host beside the model: the tools of the agent that calls it answer, by its rules."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..errors import MeshRefused, MeshUnavailable
from ..ports import HumanRequest, SideEffectGate, ToolContext
from ..tools import Tool, ToolGate

TOOLS = {
    "artifact": "get_artifact",
    "get": "read_blackboard",
    "list": "list_blackboard",
    "publish": "publish_event",
    "put": "write_blackboard",
    "search": "web_search",
    "service": "call_service",
}
"""Method of `mesh_client` -> the tool that answers it."""
SAVING = "save_artifact"
RESULT_LIMIT = 8 * 1024 * 1024
"""Bytes of an answer, which goes to a program and not into a conversation."""
SUSPENDED_SECONDS = 120.0
"""How long a request waits for the channel to the host where that is required."""
NO_SCRATCH = "no-folder-of-skills"


class SkillMesh:
    """Implements skills.MeshTools. A skill passes each check that a call of the model would pass: what its agent may
    not do, it may not do either. There is nobody to be asked, so that `ask` means no."""

    def __init__(self, gate: ToolGate, tools: Sequence[Tool], side_effects: SideEffectGate) -> None:
        self._gate = replace(gate, result_limit=RESULT_LIMIT)
        self._side_effects = side_effects
        self._tools = {tool.spec.name: tool for tool in tools}
        self.names = tuple(name for name, tool in TOOLS.items() if tool in self._tools)

    async def run(self, what: str, arguments: Mapping[str, Any], context: ToolContext) -> Any:
        tool = self._tools[TOOLS[what]]
        given = dict(arguments)
        if what == "artifact" and given.pop("save", False) is True:
            tool = self._tools[SAVING]
        try:
            async with asyncio.timeout(SUSPENDED_SECONDS):
                await self._side_effects.wait_open()
        except TimeoutError:
            raise MeshUnavailable("the channel to the host is broken; requests of skills are suspended") from None
        found = await self._gate.run(tool, given, _context_of_skill(context))
        if isinstance(found, HumanRequest):
            raise MeshRefused(f"{what}: {found.reason}")
        if found.type == "error":
            raise _failure(what, str(found.error_text), str(found.metadata.get("kind", "")))
        return found.data["results"] if what == "search" else found.data


def _context_of_skill(context: ToolContext) -> ToolContext:
    """Return the context of the call with nobody to be asked, and without the scratch folder, which skills do not
    see."""
    return replace(context, interactive=False, approved=False, scratch=context.scratch / NO_SCRATCH)


def _failure(what: str, text: str, kind: str) -> MeshUnavailable:
    match kind:
        case "invalid" | "denied":
            return MeshRefused(f"{what}: {text}", kind=kind)
        case _:
            return MeshUnavailable(f"{what}: {text}")
