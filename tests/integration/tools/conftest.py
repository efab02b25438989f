"""A home, real confinement over it, and the tools as the loop gets them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agent_runtime.ports import ToolContext, ToolResult, Toolset
from agent_runtime.sandbox import Confinement, SandboxLimits
from agent_runtime.tools import ToolGate, ToolRegistry, builtin_tools
from agent_runtime.workspace import Home

from ..conftest import Hold

if TYPE_CHECKING:
    from .school import School

LIMITS = SandboxLimits(processes=100)

Call = Callable[..., Coroutine[Any, Any, ToolResult]]


@dataclass(frozen=True)
class House:
    home: Home
    confinement: Confinement
    context: ToolContext
    tools: Toolset
    call: Call
    """`await house.call("bash", command="true")`"""

    async def bash(self, command: str, **arguments: Any) -> str:
        """What a command prints, stderr included."""
        result = await self.call("bash", command=command, **arguments)
        assert result.type == "output", result.error_text
        return result.data["stdout"] + result.data["stderr"]

    async def python(self, code: str) -> str:
        """What a Python program prints that runs as a command."""
        (self.home.workspace / "program.py").write_text(code)
        return await self.bash("python3 program.py")


@pytest.fixture
async def house(tmp_path: Path, hold: Hold) -> House:
    home = Home(tmp_path / "data")
    home.prepare()
    confinement = await hold(home.data_dir)
    if confinement.name != "bubblewrap":
        pytest.fail(confinement.reason)
    home = home.with_owner(confinement.uid)
    return furnish(home, confinement)


def furnish(
    home: Home,
    confinement: Confinement,
    *,
    session: str = "ses_1",
    gate: ToolGate | None = None,
    limits: SandboxLimits = LIMITS,
) -> House:
    tools = ToolRegistry(builtin_tools(confinement, timeout=20, limits=limits), gate=gate).snapshot()
    context = ToolContext(session, "call_1", home.workspace, home.make_scratch(session))

    async def call(name: str, **arguments: Any) -> ToolResult:
        result = await tools.run(name, arguments, context)
        assert isinstance(result, ToolResult)
        return result

    return House(home, confinement, context, tools, call)


@pytest.fixture
async def school(house: House) -> AsyncIterator[School]:
    """Skills over the house. Whatever a test does to them, no process is left behind."""
    from .school import School, until, workers

    before = set(workers())
    school = School(house)
    yield school
    await school.close()
    await until(lambda: not set(workers()) - before)
