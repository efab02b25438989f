"""Make tools of the runtime from the tools that a server lists. All data from the server is untrusted."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from agent_common.protocol import Folders, Net, RequirementSet

from ...errors import ToolFailure
from ...ports import ToolContext, ToolSpec
from ...tools import Tool
from ..config.config import LocalServer, ServerConfig
from .descriptions import INSTRUCTIONS_LIMIT, full_description, visible_text
from .names import rule_name, tool_name
from .schemas import Schema, plain_text, simplify_schema

if TYPE_CHECKING:
    from mcp_types import Tool as Listed

MAX_TOOLS = 1000
"""Most tools of one server."""
MAX_NAME_LENGTH = 128
MAX_SCHEMAS_LENGTH = 2 * 1024 * 1024
"""Most characters of the schemas of all tools of a server: in memory a schema takes up to ten times its length."""
_TOO_MUCH = f"those of all its tools have at most {MAX_SCHEMAS_LENGTH // 2**20} MiB"
CAPABILITY = "mcp.call"
"""The name of the capability to use any MCP server, in rules and grants."""
SERVICE_CAPABILITY = "mesh.service"
"""The same for a server that the host calls."""
READ_FOLDERS = ["{workspace}"]
WRITE_FOLDERS = ["{workspace}"]

CallTool = Callable[[str, Mapping[str, Any], Callable[[], None]], Awaitable[Any]]
"""Calls a tool by its name and arguments; the last argument is called whenever the tool reports progress."""


def build_tools(
    server: ServerConfig, listed: Sequence[Listed], servers: Collection[str], call: CallTool, instructions: str
) -> tuple[tuple[Tool, ...], list[str]]:
    """Return the tools, sorted by name, and a line for each that is left out: one with an invalid name, or that is
    listed twice. `instructions`: what the server says about the use of all of them."""
    tools: dict[str, Tool] = {}
    known: set[str] = set()
    faults: list[str] = []
    requires = _requires(server)
    guide = visible_text(instructions, INSTRUCTIONS_LIMIT)
    left = MAX_SCHEMAS_LENGTH
    for one in sorted(listed, key=lambda tool: tool.name):
        if one.name in known:
            faults.append(f"{plain_text(one.name)}: it is listed more than once; the first is used")
            continue
        if len(one.name) > MAX_NAME_LENGTH or not one.name.isprintable():
            faults.append(f"{plain_text(one.name)}: a name has at most {MAX_NAME_LENGTH} characters, all visible")
            continue
        known.add(one.name)
        schema = simplify_schema(one.input_schema)
        if (size := len(json.dumps(schema))) > left:
            schema = {"type": "object"}
            size = 0
            faults.append(f"{plain_text(one.name)}: its parameters are left out: {_TOO_MUCH}")
        left -= size
        tool = _tool(server, one, tool_name(server.name, one.name, servers), schema, requires, call, guide)
        if tools.setdefault(tool.spec.name, tool) is not tool:
            faults.append(f"{plain_text(one.name)}: its name is taken by another tool of this server")
    return tuple(tools.values()), faults


def add_former(tools: Sequence[Tool], former: Sequence[Tool]) -> tuple[Tool, ...]:
    """Return the tools of a list that breaks off, and those of a former list that it lacks, within the limits of one
    list, however often a server breaks off and names other tools."""
    names = {tool.spec.name for tool in tools}
    left = MAX_SCHEMAS_LENGTH - sum(_schema_length(tool) for tool in tools)
    kept = list(tools)
    for tool in former:
        if tool.spec.name in names or len(kept) >= MAX_TOOLS or (size := _schema_length(tool)) > left:
            continue
        kept.append(tool)
        left -= size
    return tuple(sorted(kept, key=lambda tool: tool.spec.name))


def _schema_length(tool: Tool) -> int:
    return len(json.dumps(tool.spec.parameters))


def _tool(
    server: ServerConfig,
    one: Listed,
    name: str,
    schema: Schema,
    requires: RequirementSet,
    call: CallTool,
    instructions: str,
) -> Tool:
    async def run(arguments: Mapping[str, Any], context: ToolContext) -> Any:
        if requires.net.hosts and context.egress is not None and context.egress.limited:
            why = "the bytes that it sends cannot be counted, and this work has a limit for them"
            raise ToolFailure(f"server {server.name} has a network: {why}", kind="denied")
        return await call(one.name, arguments, context.progress.note)

    hints = one.annotations if server.trust_hints else None
    spec = ToolSpec(
        name,
        plain_text(one.description or one.title or "") or f"{plain_text(one.name)}, of the MCP server {server.name}",
        schema,
        source="mcp",
        read_only=hints is not None and hints.read_only_hint is True,
        idempotent=hints is not None and hints.idempotent_hint is True,
        details=full_description(one.description or "", one.input_schema),
        server=server.name,
        server_instructions=instructions,
    )
    return Tool(
        spec,
        run,
        requires,
        timeout=server.timeout,
        timeout_setting=f"timeout_ms of the server {server.name} in mcp.json",
        rule_names=(rule_name(server.name, one.name),),
    )


def _requires(server: ServerConfig) -> RequirementSet:
    """Return the requirements of a call: everything that the operator has given to the server."""
    where = server.target
    if not isinstance(where, LocalServer) and where.service is not None:
        return RequirementSet(capabilities=[CAPABILITY, SERVICE_CAPABILITY])
    if not isinstance(where, LocalServer):
        host = urlsplit(where.url).hostname or ""
        return RequirementSet(net=Net(hosts=[host]), capabilities=[CAPABILITY])
    return RequirementSet(
        fs=Folders(read=READ_FOLDERS, write=WRITE_FOLDERS if where.write else []),
        net=Net(hosts=["*"] if where.network else []),
        capabilities=[CAPABILITY],
    )
