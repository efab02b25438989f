"""One plugin's state, and the tools and states that follow from all plugins."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_common.protocol import Folders, RequirementSet, SkillState
from agent_common.telemetry import logger

from ...errors import ToolFailure
from ...ports import ToolContext
from ...tools import Output, Tool
from ..sources.source import Stamp
from .declarations import SkillDeclaration
from .validator import SkillBuild

WORKER_FOLDERS = Folders(read=["{workspace}"], write=["{workspace}"])
"""Folders that a worker can read and write."""
REQUIREMENTS = RequirementSet(fs=WORKER_FOLDERS, capabilities=["skills.run"])

log = logger(__name__)


@dataclass(slots=True, eq=False)
class Plugin:
    """One plugin, for as long as it is in the folder."""

    file: str
    stamp: Stamp | None = None
    """The file's stamp when it was last validated; None: validate it again."""
    active: SkillBuild | None = None
    """The build in service: the last version that passed."""
    version: int = 1
    tools: tuple[Tool, ...] = ()
    error: str | None = None
    """Why the version on disk is not in service; None: it is."""
    available: bool = True
    """False where skills cannot be confined and are therefore not offered."""
    disabled_before_start: str | None = None
    """Why an earlier process disabled it; None once it is saved again."""
    has_name_clash: bool = False
    """Whether another plugin has a name that it declares."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the plugin is validated or its file is changed."""

    def activate(self, build: SkillBuild, version: int) -> None:
        """Put a build into service and clear earlier faults."""
        self.active = build
        self.version = version
        self.error = None
        self.available = True
        self.disabled_before_start = None
        self.tools = tuple(_skill_tool(skill, build) for skill in build.skills)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(tool.spec.name for tool in self.tools)

    @property
    def disabled_reason(self) -> str | None:
        return self.active.pool.disabled_reason if self.active is not None else None

    def states(self) -> list[SkillState]:
        if self.disabled_before_start is not None:
            return [
                SkillState(
                    name=Path(self.file).stem, file=self.file, state="disabled", error=self.disabled_before_start
                )
            ]
        if self.active is None and self.error is None:
            return []  # its first validation is running
        if self.active is None:
            state = "failed" if self.available else "disabled"
            return [SkillState(name=Path(self.file).stem, file=self.file, state=state, error=self.error)]
        failed = f"{self.error}; version {self.version} stays" if self.error else None
        error = "; ".join(filter(None, (failed, self.disabled_reason))) or None
        state = "disabled" if self.disabled_reason else "active"
        return [
            SkillState(name=name, file=self.file, version=self.version, state=state, error=error) for name in self.names
        ]


@dataclass(frozen=True, slots=True)
class SkillSet:
    """The tools and states of all plugins at one moment. Replaced as a whole, never changed."""

    tools: tuple[Tool, ...] = ()
    states: tuple[SkillState, ...] = ()


def build_skill_set(plugins: Iterable[Plugin]) -> SkillSet:
    ordered = sorted(plugins, key=lambda plugin: plugin.file)
    return SkillSet(
        tuple(tool for plugin in ordered if not plugin.disabled_reason for tool in plugin.tools),
        tuple(state for plugin in ordered for state in plugin.states()),
    )


def _skill_tool(skill: SkillDeclaration, build: SkillBuild) -> Tool:
    async def run(arguments: Mapping[str, Any], context: ToolContext) -> Output:
        try:
            result = await build.pool.call(skill.spec.name, arguments, context)
        except ToolFailure as failure:  # its message has what was printed
            log.warning("skill failed", skill=skill.spec.name, call_id=context.call_id, error=failure.message)
            raise
        if not result.log:
            return Output(result.value)
        log.info("skill printed", skill=skill.spec.name, call_id=context.call_id, text=result.log)
        return Output(result.value, metadata={"log": result.log})

    return Tool(skill.spec, run, REQUIREMENTS, timeout=skill.timeout, build=build.source.build_digest)
