"""What the agent says of itself to the other agents of its team."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from agent_common.protocol import PeerCard, Skill

from .. import __version__
from ..agents import AgentDirectory
from ..settings import Settings
from ..skills import SkillLibrary
from ..tools import ToolRegistry

_NAME = 200
_TEXT = 500
_ROLE = 200
"""Most characters of what is told."""
_AGENTS = 50
_SKILLS = 100
_TOOLS = 500
"""Most of each that are told, so that the card fits."""


def card_reader(
    settings: Settings, agents: AgentDirectory, library: SkillLibrary, tools: ToolRegistry
) -> Callable[[], Awaitable[PeerCard]]:
    """Return what reads the card as it is now."""

    async def read() -> PeerCard:
        packages = (await asyncio.to_thread(library.catalog)).packages
        plugins = [one.name for one in tools.skills() if one.state == "active"]
        descriptions = {spec.name: spec.description for spec in tools.all_specs()}
        skills = [_skill({"name": name, "description": descriptions.get(name, "")}) for name in plugins]
        skills += [_skill(one) for one in packages]
        return PeerCard(
            name=settings.id[:_NAME],
            role=settings.role[:_ROLE],
            agents=[_skill({"name": name, "description": text}) for name, text in agents.callable_agents()][:_AGENTS],
            skills=skills[:_SKILLS],
            tools=sorted({spec.name[:_NAME] for spec in tools.all_specs()})[:_TOOLS],
            protocols={"agent-runtime": __version__},
        )

    return read


def _skill(found: dict[str, str]) -> Skill:
    return Skill(name=found["name"][:_NAME], description=found.get("description", "")[:_TEXT])
