"""Make tools of the runtime from the tools that a server lists. All data from the server is untrusted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from agent_common.protocol import Folders, Net, RequirementSet
from agent_common.telemetry import logger

from ...errors import ToolFailure
from ...ports import ToolContext, ToolSpec
from ...tools import Tool
from ..config.config import LocalServer, ServerConfig
from .names import rule_name, tool_name
from .schemas import plain_text, simplify_schema

if TYPE_CHECKING:
    from mcp_types import Tool as Listed

MAX_NAME_LENGTH = 128
CAPABILITY = "mcp.call"
"""The name of the capability to use any MCP server, in rules and grants."""
READ_FOLDERS, WRITE_FOLDERS = ["{workspace}"], ["{workspace}"]

CallTool = Callable[[str, Mapping[str, Any]], Awaitable[Any]]

log = logger(__name__)


def build_tools(
    server: ServerConfig, listed: Sequence[Listed], servers: Collection[str], call: CallTool
) -> tuple[Tool, ...]:
    """Return the tools, sorted by name. A tool with an invalid name, or that is listed twice, is left out."""
    tools: dict[str, Tool] = {}
    known: set[str] = set()
    requires = _requires(server)
    for one in sorted(listed, key=lambda tool: tool.name):
        if one.name in known or not 0 < len(one.name) <= MAX_NAME_LENGTH or not one.name.isprintable():
            continue
        known.add(one.name)
        tool = _tool(server, one, tool_name(server.name, one.name, servers), requires, call)
        tools.setdefault(tool.spec.name, tool)
    if left_out := len(listed) - len(tools):
        log.warning("mcp tools left out", server=server.name, tools=left_out)
    return tuple(tools.values())


def _tool(server: ServerConfig, one: Listed, name: str, requires: RequirementSet, call: CallTool) -> Tool:
    async def run(arguments: Mapping[str, Any], context: ToolContext) -> Any:
        if requires.net.hosts and context.egress is not None and context.egress.limited:
            why = "the bytes that it sends cannot be counted, and this work has a limit for them"
            raise ToolFailure(f"server {server.name} has a network: {why}", kind="denied")
        return await call(one.name, arguments)

    hints = one.annotations if server.trust_hints else None
    spec = ToolSpec(
        name,
        plain_text(one.description or one.title or "") or f"{plain_text(one.name)}, of the MCP server {server.name}",
        simplify_schema(one.input_schema),
        source="mcp",
        read_only=hints is not None and hints.read_only_hint is True,
        idempotent=hints is not None and hints.idempotent_hint is True,
    )
    return Tool(spec, run, requires, timeout=server.timeout, rule_names=(rule_name(server.name, one.name),))


def _requires(server: ServerConfig) -> RequirementSet:
    """Return the requirements of a call: everything that the operator has given to the server."""
    where = server.target
    if not isinstance(where, LocalServer):
        host = urlsplit(where.url).hostname or ""
        return RequirementSet(net=Net(hosts=[host]), capabilities=[CAPABILITY])
    return RequirementSet(
        fs=Folders(read=READ_FOLDERS, write=WRITE_FOLDERS if where.write else []),
        net=Net(hosts=["*"] if where.network else []),
        capabilities=[CAPABILITY],
    )
