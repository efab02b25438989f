"""The plugins of one moment, and the catalog that follows from them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_common.protocol import Folders, RequirementSet, SkillState
from agent_common.telemetry import logger

from ...ports import ToolContext
from ...tools import Output, Tool
from ..sources.source import Stamp
from ..workers.pool import WorkerPool
from .declarations import SkillDeclaration
from .validator import SkillBuild

WORKER_FOLDERS = Folders(read=["{workspace}"], write=["{workspace}"])
"""What a worker can reach, whatever its code does."""
REQUIREMENTS = RequirementSet(fs=WORKER_FOLDERS, capabilities=["skills.run"])

log = logger(__name__)


@dataclass(slots=True, eq=False)
class Plugin:
    """One plugin, for as long as it lies in the folder."""

    file: str
    stamp: Stamp | None = None
    """How that lay on disk which was judged last; none: to be judged anew."""
    active: SkillBuild | None = None
    """What is in service: the last good version, also while another one is wrong."""
    version: int = 1
    tools: tuple[Tool, ...] = ()
    error: str | None = None
    """Why that which lies there is not in service."""
    available: bool = True
    """False where skills cannot be held, and so cannot be had at all."""
    disabled_before_start: str | None = None
    """Why it was set aside in an earlier life, for as long as nobody saves it."""
    has_name_clash: bool = False
    """Another plugin has a name that it wants."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by whoever judges it, or changes what lies there."""

    def activate(self, build: SkillBuild, version: int) -> None:
        """Puts a build into service; what was wrong before it is history."""
        self.active, self.version = build, version
        self.error, self.available, self.disabled_before_start = None, True, None
        self.tools = tuple(_skill_tool(skill, build.pool) for skill in build.skills)

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
            return []  # its first trial goes on
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
    """All that is known at one moment. Replaced as a whole, never changed."""

    tools: tuple[Tool, ...] = ()
    states: tuple[SkillState, ...] = ()


def build_skill_set(plugins: Iterable[Plugin]) -> SkillSet:
    ordered = sorted(plugins, key=lambda plugin: plugin.file)
    return SkillSet(
        tuple(tool for plugin in ordered if not plugin.disabled_reason for tool in plugin.tools),
        tuple(state for plugin in ordered for state in plugin.states()),
    )


def _skill_tool(skill: SkillDeclaration, pool: WorkerPool) -> Tool:
    async def run(arguments: Mapping[str, Any], context: ToolContext) -> Output:
        result = await pool.call(skill.spec.name, arguments, context)
        if not result.log:
            return Output(result.value)
        log.info("skill printed", skill=skill.spec.name, call_id=context.call_id, text=result.log)
        return Output(result.value, metadata={"log": result.log})

    return Tool(skill.spec, run, REQUIREMENTS, timeout=skill.timeout)
