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
from .declarations import DeclaredSkill
from .validator import SkillBuild

HELD = Folders(read=["{workspace}"], write=["{workspace}"])
"""What a worker can reach, whatever its code does."""
REQUIRES = RequirementSet(fs=HELD, capabilities=["skills.run"])

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
    resting: str | None = None
    """Why it was set aside in an earlier life, for as long as nobody saves it."""
    clashes: bool = False
    """Another plugin has a name that it wants."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by whoever judges it, or changes what lies there."""

    def take(self, build: SkillBuild, version: int) -> None:
        """Puts a build into service; what was wrong before it is history."""
        self.active, self.version = build, version
        self.error, self.available, self.resting = None, True, None
        self.tools = tuple(_tool(skill, build.pool) for skill in build.skills)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(tool.spec.name for tool in self.tools)

    @property
    def set_aside(self) -> str | None:
        return self.active.pool.set_aside if self.active is not None else None

    def states(self) -> list[SkillState]:
        if self.resting is not None:
            return [SkillState(name=Path(self.file).stem, file=self.file, state="disabled", error=self.resting)]
        if self.active is None and self.error is None:
            return []  # its first trial goes on
        if self.active is None:
            state = "failed" if self.available else "disabled"
            return [SkillState(name=Path(self.file).stem, file=self.file, state=state, error=self.error)]
        failed = f"{self.error}; version {self.version} stays" if self.error else None
        error = "; ".join(filter(None, (failed, self.set_aside))) or None
        state = "disabled" if self.set_aside else "active"
        return [
            SkillState(name=name, file=self.file, version=self.version, state=state, error=error) for name in self.names
        ]


@dataclass(frozen=True, slots=True)
class SkillSet:
    """All that is known at one moment. Replaced as a whole, never changed."""

    tools: tuple[Tool, ...] = ()
    states: tuple[SkillState, ...] = ()


def catalog(plugins: Iterable[Plugin]) -> SkillSet:
    ordered = sorted(plugins, key=lambda plugin: plugin.file)
    return SkillSet(
        tuple(tool for plugin in ordered if not plugin.set_aside for tool in plugin.tools),
        tuple(state for plugin in ordered for state in plugin.states()),
    )


def _tool(declared: DeclaredSkill, pool: WorkerPool) -> Tool:
    async def run(arguments: Mapping[str, Any], context: ToolContext) -> Output:
        result = await pool.call(declared.spec.name, arguments, context)
        if not result.log:
            return Output(result.value)
        log.info("skill printed", skill=declared.spec.name, call_id=context.call_id, text=result.log)
        return Output(result.value, metadata={"log": result.log})

    return Tool(declared.spec, run, REQUIRES, timeout=declared.timeout)
