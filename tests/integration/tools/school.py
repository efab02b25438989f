"""A host of skills over a house, and a plugin that imports nothing."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import psutil

from agent_common.clock import SystemClock
from agent_common.protocol import ModelCard
from agent_runtime.errors import MeshUnavailable
from agent_runtime.ports import ToolResult, Toolset
from agent_runtime.sandbox import Confinement, SandboxLimits
from agent_runtime.skills import (
    MIGRATIONS,
    Environments,
    Grants,
    MeshTools,
    PackageIndex,
    PluginVersions,
    SkillManager,
    Staging,
    WorkerSetup,
    authoring_tools,
)
from agent_runtime.skills.workers.process import WORKER_ARGV
from agent_runtime.store import Database
from agent_runtime.tools import ToolGate, ToolRegistry
from agent_runtime.workspace import PromptFileAuthors

from .conftest import House

SEED = """
@skill(
    name="your_tool",
    description="What this does and when to use it",
    parameters={
        "param1": {"type": "string", "description": "What this param is for"},
    },
)
async def your_tool(param1: str, *, mesh_client=None) -> dict:
    return {"result": "value"}
"""


class Mesh:
    """A mesh that keeps account of what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.at_once = self.most_at_once = 0

    async def models(self) -> Sequence[ModelCard]:
        return []

    async def chat(
        self, messages: Sequence[Mapping[str, Any]], meter: object = None, /, **options: Any
    ) -> dict[str, Any]:
        self.asked.append((messages, options))
        if options.get("model") == "broken":
            raise ZeroDivisionError
        self.at_once += 1
        self.most_at_once = max(self.at_once, self.most_at_once)
        await asyncio.sleep(0.02)
        self.at_once -= 1
        return {"content": f"{len(messages)} messages"}

    async def embed(
        self, texts: Sequence[str], meter: object = None, /, *, model: str | None = None
    ) -> list[list[float]]:
        raise MeshUnavailable("no embeddings here")

    async def request(self, path: str, body: Any, meter: object = None, /) -> dict[str, Any]:
        self.asked.append((path, body))
        if path == "embeddings":
            raise MeshUnavailable("no embeddings here")
        if body["messages"][0]["content"] == "too much":
            return {"status": 429, "body": {"error": {"message": "slow down", "type": "rate_limit_error"}}}
        message = {"role": "assistant", "content": "hello"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        shell = {"id": "c1", "object": "chat.completion", "created": 1, "model": body["model"]}
        return {"status": 200, "body": {**shell, "choices": [choice]}}


class School:
    """A host of skills over a house."""

    def __init__(self, house: House) -> None:
        self.house, self.mesh = house, Mesh()
        self.host: SkillManager | None = None
        self.events: list[dict[str, Any]] = []
        self.mesh_tools: MeshTools | None = None
        self.linger_seconds = 30.0
        self.timeout = 10.0
        self.index: str | None = None
        self.environment: dict[str, str] = {}
        self.dependencies: Literal["off", "people", "all"] = "people"
        self.authors = PromptFileAuthors(house.home, SystemClock())
        self.registry: ToolRegistry
        self.tools: Toolset
        self.database = Database(house.home.database, MIGRATIONS)
        self.database.open()

    @property
    def grants(self) -> Grants:
        return Grants(self.house.home.data_dir / "skill-grants.json", self.environment)

    async def close(self) -> None:
        if self.host is not None:
            await self.host.close()
        self.database.close()

    async def teach(self, *, load_seconds: float = 15, **plugins: str) -> SkillManager:
        """Writes plugins, by name, and starts a host over them."""
        for name, code in plugins.items():
            path = self.house.home.skills / f"{name}.py"
            path.parent.mkdir(exist_ok=True)
            path.write_text(code)
        return await self.open(self.house.confinement, load_seconds)

    async def open(self, confinement: Confinement, load_seconds: float = 15) -> SkillManager:
        """Starts a host, or another one over what the last left."""
        if self.host is not None:
            await self.host.close()
        home = self.house.home
        limits = SandboxLimits(memory=256 * 2**20, processes=64)
        self.host = SkillManager(
            home.skills,
            WorkerSetup(
                confinement,
                self.mesh,
                home.workspace,
                limits,
                load_seconds,
                mesh_tools=self.mesh_tools,
                linger_seconds=self.linger_seconds,
                authors=self.authors,
            ),
            Staging(home.staged),
            Environments(home.skill_environments, confinement, self.dependencies, PackageIndex(self.index)),
            self.grants,
            PluginVersions(self.database, SystemClock(), home.workspace),
            self,
        )
        await self.host.start()
        self.registry = ToolRegistry(authoring_tools(self.host), self.host, gate=ToolGate(timeout=self.timeout))
        self.look()
        return self.host

    def emit(self, kind: str, principal: str | None, /, **facts: Any) -> None:
        self.events.append({"type": kind, **facts})

    def look(self) -> None:
        """Takes the tools as they are now."""
        self.tools = self.registry.snapshot()

    async def call(self, name: str, /, **arguments: Any) -> ToolResult:
        result = await self.tools.run(name, arguments, self.house.context)
        assert isinstance(result, ToolResult)
        return result

    async def value(self, name: str, /, **arguments: Any) -> Any:
        result = await self.call(name, **arguments)
        assert result.type == "output", result.error_text
        return result.data


def workers() -> list[int]:
    """The processes of workers that this process has started: other test runs on the machine have their own."""
    found = list[tuple[int, dict[str, Any]]]()
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            found.append((child.pid, child.as_dict(["cmdline", "status"])))
    name = WORKER_ARGV[-1]
    return [pid for pid, info in found if name in (info["cmdline"] or []) and info["status"] != "zombie"]


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)
