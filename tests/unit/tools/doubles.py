"""Small tools to try the gate and the catalog with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent_runtime.ports import HumanRequest, ToolContext, ToolResult, ToolSpec
from agent_runtime.tools import Tool
from agent_runtime.tools.core.contract import RunTool

NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}


def tool(name: str, run: RunTool, *, timeout: float | None = None, parameters: dict[str, Any] | None = None) -> Tool:
    return Tool(ToolSpec(name, "For tests.", parameters or NO_ARGUMENTS), run, timeout=timeout)


def answering(data: Any, name: str = "answer") -> Tool:
    async def run(arguments: Mapping[str, Any], context: ToolContext) -> Any:
        return data

    return tool(name, run)


def raising(error: BaseException) -> Tool:
    async def run(arguments: Mapping[str, Any], context: ToolContext) -> Any:
        raise error

    return tool("broken", run)


def context(folder: Path) -> ToolContext:
    workspace, scratch = folder.resolve() / "workspace", folder.resolve() / "scratch"
    workspace.mkdir(exist_ok=True)
    scratch.mkdir(exist_ok=True)
    return ToolContext("ses_1", "call_1", workspace, scratch)


def finished(result: ToolResult | HumanRequest) -> ToolResult:
    """The result of a call that needed nobody."""
    assert isinstance(result, ToolResult)
    return result
