"""Writes the table of docs/reference/tools.md from the tools themselves: `python -m scripts.tools`."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, cast

from agent_common.net import WebClient
from agent_common.protocol import SearchHit
from agent_runtime.learnings import NoLearnings
from agent_runtime.memory import NoMemory
from agent_runtime.ports import HubAccess, MeshReply, MeshRequest, MeshStream
from agent_runtime.sandbox import Confinement
from agent_runtime.skills import SkillManager, authoring_tools
from agent_runtime.tools import Tool, builtin_tools

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "tools.md"
BEGIN = "<!-- made by scripts/tools.py -->\n"
END = "<!-- end -->\n"
HEAD = """\
| tool | parameters | answers with | bounds | deadline | a repeated call |
|---|---|---|---|---|---|
"""


def page() -> str:
    """The whole page: the table is made, what stands around it stays."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + table() + END + after


def table() -> str:
    nobody = Nobody()
    tools = builtin_tools(
        Confinement(None),
        egress=WebClient(),
        search=nobody,
        team=nobody,
        events=nobody,
        hub=cast("HubAccess", nobody),
        callable_agents=(),
        learnings=NoLearnings(),
        memory=NoMemory(),
    )
    tools += authoring_tools(cast("SkillManager", None))
    return HEAD + "".join(_row(tool) for tool in sorted(tools, key=lambda tool: tool.spec.name))


class Nobody:
    """Stands in for the host: no tool is called here."""

    async def search(self, query: str, limit: int, session_id: str) -> list[SearchHit]:
        raise NotImplementedError

    async def request(self, request: MeshRequest) -> MeshReply:
        raise NotImplementedError

    def emit(self, kind: str, principal: str | None, /, **facts: Any) -> None:
        raise NotImplementedError

    def open(self, request: MeshRequest) -> AbstractAsyncContextManager[MeshStream]:
        raise NotImplementedError


def _row(tool: Tool) -> str:
    spec = tool.spec
    required = spec.parameters.get("required", [])
    parameters = ", ".join(
        _parameter(name, schema, name in required) for name, schema in spec.parameters["properties"].items()
    )
    deadline = f"{tool.timeout:g} s" if tool.timeout else "the default"
    repeated = "changes nothing" if spec.read_only else "as one" if spec.idempotent else "counts again"
    cells = (f"`{spec.name}`", parameters, tool.result_doc, tool.limits_doc, deadline, repeated)
    return f"| {' | '.join(cells)} |\n"


def _parameter(name: str, schema: dict[str, Any], required: bool) -> str:
    choices = ", ".join(f"`{one}`" for one in schema.get("enum", ()))
    return f"`{name}{'' if required else '?'}`" + (f" ({choices})" if choices else "")


if __name__ == "__main__":
    PAGE.write_text(page())
