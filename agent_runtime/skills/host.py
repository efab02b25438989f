"""The skills of an agent: found, imported in workers of their own, and offered as tools."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ToolFailure
from ..ports import Mesh, ToolContext
from ..protocol import SkillState
from ..sandbox import Confinement, Limits
from ..telemetry import logger
from ..tools import Requirements, Tool
from .declared import Declared, Refused, check
from .pool import Pool
from .process import LOAD_SECONDS, Setup

AT_ONCE = 4
"""Plugins imported at the same time."""
PROCESSES = 64
MEMORY_MB = 512

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Found:
    """A plugin, what it declares or why it cannot be used."""

    file: str
    pool: Pool
    skills: Sequence[Mapping[str, Any]] = ()
    error: str | None = None
    available: bool = True


@dataclass(frozen=True, slots=True)
class Skills:
    """All that is known at one moment. Replaced as a whole, never changed."""

    tools: tuple[Tool, ...] = ()
    states: tuple[SkillState, ...] = ()


class SkillHost:
    """Tool provider for the plugins of a folder. `start` it, then ask for `tools` and `states`; `close` it."""

    def __init__(
        self,
        skills_dir: Path,
        confinement: Confinement,
        mesh: Mesh,
        *,
        workspace: Path,
        memory_mb: int = MEMORY_MB,
        load_seconds: float = LOAD_SECONDS,
    ) -> None:
        limits = Limits(memory=memory_mb * 2**20, processes=PROCESSES)
        self._dir = skills_dir.resolve()
        self._setup = Setup(confinement, mesh, self._dir, workspace, limits, load_seconds)
        self._pools: list[Pool] = []
        self._now = Skills()

    def tools(self) -> Sequence[Tool]:
        return self._now.tools

    def states(self) -> Sequence[SkillState]:
        return self._now.states

    async def start(self) -> None:
        """Imports every plugin. One that fails shows in `states` and does not hinder the others."""
        slots = asyncio.Semaphore(AT_ONCE)
        plugins = await asyncio.to_thread(discover, self._dir)
        self._now = catalog(await asyncio.gather(*(self._find(plugin, slots) for plugin in plugins)))
        for state in self._now.states:
            if state.error:
                log.warning("skill not loaded", skill=state.name, file=state.file, error=state.error)

    async def close(self) -> None:
        """Ends all workers."""
        await asyncio.gather(*(pool.close() for pool in self._pools))

    async def _find(self, plugin: Path, slots: asyncio.Semaphore) -> Found:
        pool = Pool(self._setup, plugin)
        self._pools.append(pool)
        try:
            async with slots:
                return Found(plugin.name, pool, await pool.load())
        except ToolFailure as failure:
            return Found(plugin.name, pool, error=failure.message, available=failure.kind != "unavailable")


def discover(skills_dir: Path) -> list[Path]:
    """The plugins of a folder by name: Python files and packages that do not begin with `_` or a dot."""
    if not skills_dir.is_dir():
        return []
    return [
        path
        for path in sorted(skills_dir.iterdir())
        if not path.name.startswith(("_", "."))
        and ((path.suffix == ".py" and path.is_file()) or (path / "__init__.py").is_file())
    ]


def catalog(found: Sequence[Found]) -> Skills:
    """The tools and states of what was found. A name belongs to the first that has it, in the order of the files."""
    tools: dict[str, Tool] = {}
    owners: dict[str, str] = {}
    states: list[SkillState] = []
    for one in found:
        if one.error is not None:
            state = "failed" if one.available else "disabled"
            states.append(SkillState(name=Path(one.file).stem, file=one.file, state=state, error=one.error))
        for skill in one.skills:
            name = str(skill.get("name"))[:64]
            try:
                declared = check(skill)
                if name in owners:
                    raise Refused(f"name: {name} is taken by {owners[name]}; take another name")
            except Refused as refusal:
                states.append(SkillState(name=name, file=one.file, state="failed", error=str(refusal)))
                continue
            owners[name] = one.file
            tools[name] = _tool(declared, one.pool)
            states.append(SkillState(name=name, file=one.file, state="active"))
    return Skills(tuple(tools.values()), tuple(states))


def _tool(declared: Declared, pool: Pool) -> Tool:
    async def run(arguments: Mapping[str, Any], _: ToolContext) -> Any:
        return await pool.call(declared.spec.name, arguments)

    requires = Requirements(read=("{workspace}",), write=("{workspace}",))
    return Tool(declared.spec, run, requires, timeout=declared.timeout)
