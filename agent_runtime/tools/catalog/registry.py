"""The catalog: the built-in tools and those of the providers, taken as a snapshot when a turn begins."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agent_common.protocol import SkillState, ToolContract
from agent_common.protocol.authority import Authority
from agent_common.telemetry import logger

from ...ports import HumanRequest, Progress, ToolContext, ToolResult, ToolSpec
from ..core import schema
from ..core.contract import RESERVED_TOOL_NAMES, TOOL_ALIASES, Tool, ToolProvider
from ..core.gate import ToolGate, error_result
from ..core.permissions import rule_aliases
from .tool_search_index import ToolIndex

MAX_SHOWN = 20
"""With more tools than this, those of MCP servers are deferred: found by `tool_search` instead of shown."""
SEARCH_TOOL = "tool_search"
MAX_DETAILS_LENGTH = 16_000
"""Characters of details that a list without `tool_search` shows."""
MAX_SNAPSHOTS = 64
"""Maximum cached snapshots."""

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The tools of one step, in the order in which the model sees them; deferred ones come last."""

    tools: Mapping[str, Tool]
    gate: ToolGate
    list_offered: Callable[[Authority | None], Mapping[str, Tool]]
    """Returns the tools offered at the moment of the call."""
    deferred: frozenset[str] = frozenset()
    """Names of tools that are not shown."""

    specs: Sequence[ToolSpec] = field(init=False)
    """The tools that are shown."""

    def __post_init__(self) -> None:
        shown = tuple(tool.spec for name, tool in self.tools.items() if name not in self.deferred)
        object.__setattr__(self, "specs", shown if SEARCH_TOOL in self.tools else _with_details(shown))

    async def prepare(self) -> None:
        await schema.load_schema_validator()

    def spec(self, name: str) -> ToolSpec | None:
        tool = self._find_tool(name)
        return tool.spec if tool is not None else None

    def _find_tool(self, name: str) -> Tool | None:
        return self.tools.get(name) or self.tools.get(TOOL_ALIASES.get(name, ""))

    async def run(self, name: str, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult | HumanRequest:
        tool = self._find_tool(name)
        if tool is None:
            there_are = ", ".join(spec.name for spec in self.specs) or "none"
            more = f"; {SEARCH_TOOL} finds more" if self.deferred else ""
            return error_result(
                f"there is no tool {name[:64]!r}; there are: {there_are}{more}", "unavailable", time.monotonic()
            )
        return await self.gate.run(tool, arguments, replace(context, deferred_tools=self, progress=Progress()))

    async def withdraw(self, name: str, arguments: Mapping[str, Any], context: ToolContext) -> None:
        tool = self._find_tool(name)
        if tool is not None and tool.withdraw is not None:
            await tool.withdraw(arguments, context)

    def has_any(self) -> bool:
        return bool(self._partly_shown())

    def search(self, query: str, limit: int) -> Sequence[ToolSpec]:
        specs = self._partly_shown()
        index = ToolIndex([(name, spec.details or spec.description) for name, spec in specs.items()])
        return [specs[name] for name, _ in index.search(query, limit)]

    def named_in_list(self, query: str) -> Sequence[str]:
        named = list(dict.fromkeys(query.replace(",", " ").split()))
        return named if {spec.name for spec in self.specs} >= set(named) else []

    def search_list(self, query: str, limit: int) -> Sequence[str]:
        index = ToolIndex([(spec.name, spec.description) for spec in self.specs if spec.name != SEARCH_TOOL])
        return [name for name, _ in index.search(query, limit)]

    def is_hidden(self, name: str) -> bool:
        return name in self.deferred

    def _partly_shown(self) -> dict[str, ToolSpec]:
        specs = {name: tool.spec for name, tool in self.tools.items()}
        return {
            name: spec
            for name, spec in specs.items()
            if name in self.deferred or spec.details or spec.server_instructions
        }

    def with_tools(self, names: Sequence[str], authority: Authority | None = None) -> Snapshot:
        now = self.list_offered(authority)
        joining = {name: now[name] for name in names if name in now}
        # A deferred tool was after all others, and moves to its shown place.
        before = {name: tool for name, tool in self.tools.items() if name not in self.deferred or name not in joining}
        return replace(self, tools={**before, **joining}, deferred=self.deferred - joining.keys())


class ToolRegistry:
    """All tools. A name belongs to the first source that has it: built-in tools, then the providers in order."""

    def __init__(self, builtins: Sequence[Tool], *providers: ToolProvider, gate: ToolGate | None = None) -> None:
        self._builtins = {tool.spec.name: tool for tool in builtins}
        self._providers = providers
        self._gate = gate or ToolGate()
        self._snapshot_tools: Mapping[str, Tool] = {}
        """The tools that the cached snapshots were made of."""
        self._snapshots: dict[object, Snapshot] = {}
        """Snapshots by order and authority."""

    async def ready(self, authority: Authority) -> None:
        """Connect the servers that a turn with this authority may use; give up after a short time."""
        for provider in self._providers:
            await provider.ready(authority)

    def snapshot(self, order: Sequence[str] = (), authority: Authority | None = None) -> Snapshot:
        """Return the present tools that the authority offers: those in `order` first, in that order, then new ones,
        sorted."""
        there_are = self._all_tools()
        if there_are != self._snapshot_tools or len(self._snapshots) >= MAX_SNAPSHOTS:
            self._snapshot_tools = there_are
            self._snapshots = {}
        layers = None if authority is None else tuple(layer.tools for layer in authority.layers)
        key = (tuple(order), layers)
        if key not in self._snapshots:
            self._snapshots[key] = self._build_snapshot(order, authority)
        return self._snapshots[key]

    def _build_snapshot(self, order: Sequence[str], authority: Authority | None) -> Snapshot:
        now = self._offered_tools(authority)
        known = [name for name in dict.fromkeys(order) if name in now]
        tools = {name: now[name] for name in (*known, *sorted(now.keys() - set(known)))}
        return Snapshot(tools, self._gate, self._offered_tools, _deferred_names(now, known, authority))

    def _offered_tools(self, authority: Authority | None) -> dict[str, Tool]:
        now = self._all_tools()
        if authority is None:
            return now
        return {name: tool for name, tool in now.items() if authority.offers(name, *rule_aliases(tool))}

    def all_specs(self) -> Sequence[ToolSpec]:
        """Return all tools, including those that a model must search for."""
        return tuple(tool.spec for _, tool in sorted(self._all_tools().items()))

    def contracts(self) -> Mapping[str, ToolContract]:
        """Return the contract of each tool, which has more than its schema."""
        return {name: self._contract(tool) for name, tool in self._all_tools().items()}

    def _contract(self, tool: Tool) -> ToolContract:
        return ToolContract(
            requires=tool.requires.model_dump(mode="json", exclude_none=True),
            read_only=tool.spec.read_only,
            idempotent=tool.spec.idempotent,
            timeout_seconds=tool.timeout or self._gate.timeout,
        )

    def skills(self) -> Sequence[SkillState]:
        return tuple(state for provider in self._providers for state in provider.states())

    def _all_tools(self) -> dict[str, Tool]:
        found = dict(self._builtins)
        for provider in self._providers:
            for tool in provider.tools():
                name = tool.spec.name
                if name in found or name in RESERVED_TOOL_NAMES:
                    log.warning("tool name taken", tool=name)
                else:
                    found[name] = tool
        return found


def _with_details(specs: Sequence[ToolSpec]) -> tuple[ToolSpec, ...]:
    """Return the tools with all that their servers say of them, which nothing else would show, as far as there is
    room."""
    left = MAX_DETAILS_LENGTH
    shown: list[ToolSpec] = []
    for spec in specs:
        fits = 0 < len(spec.details) <= left
        left -= len(spec.details) if fits else 0
        shown.append(replace(spec, description=spec.details) if fits else spec)
    return tuple(shown)


def _deferred_names(offered: Mapping[str, Tool], known: Sequence[str], authority: Authority | None) -> frozenset[str]:
    """Return the tools to defer: none that the session has seen, and none at all if they could not be searched. Those
    of mesh and hub are deferred unless a manifest names them, those of MCP servers if there are many tools."""
    if SEARCH_TOOL not in offered:
        return frozenset()
    named = {name for layer in (authority.layers if authority else ()) for name in layer.tools}
    mesh = {name for name, tool in offered.items() if tool.spec.source in ("mesh", "hub")} - {*known, *named}
    if len(offered) - len(mesh) <= MAX_SHOWN:
        return frozenset(mesh)
    return frozenset(mesh | ({name for name, tool in offered.items() if tool.spec.source == "mcp"} - {*known}))
