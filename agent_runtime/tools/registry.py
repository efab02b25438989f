"""The catalog: the product's own tools and those of the providers, taken as a snapshot when a turn begins."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..ports import HumanWait, ToolContext, ToolResult, ToolSpec
from ..protocol import SkillState
from ..telemetry import logger
from .contract import LOCKED, Tool, ToolProvider
from .gate import Gate, error

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The tools of one turn, in the order in which the model sees them."""

    tools: Mapping[str, Tool]
    gate: Gate

    @property
    def specs(self) -> Sequence[ToolSpec]:
        return tuple(tool.spec for tool in self.tools.values())

    async def run(self, name: str, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult | HumanWait:
        tool = self.tools.get(name)
        if tool is None:
            there_are = ", ".join(self.tools) or "none"
            return error(f"there is no tool {name[:64]!r}; there are: {there_are}", "unavailable", time.monotonic())
        return await self.gate.run(tool, arguments, context)


class ToolRegistry:
    """All tools there are now. A name belongs to whoever had it first: the product, then the providers in order."""

    def __init__(self, builtins: Sequence[Tool], *providers: ToolProvider, gate: Gate | None = None) -> None:
        self._builtins = {tool.spec.name: tool for tool in builtins}
        self._providers = providers
        self._gate = gate or Gate()

    def snapshot(self, order: Sequence[str] = ()) -> Snapshot:
        """The tools as they are now: those named in `order` first and in that order, new ones sorted behind."""
        now = self._all()
        known = [name for name in dict.fromkeys(order) if name in now]
        return Snapshot({name: now[name] for name in (*known, *sorted(now.keys() - set(known)))}, self._gate)

    def tools(self) -> Sequence[ToolSpec]:
        return self.snapshot().specs

    def skills(self) -> Sequence[SkillState]:
        return tuple(state for provider in self._providers for state in provider.states())

    def _all(self) -> dict[str, Tool]:
        found = dict(self._builtins)
        for provider in self._providers:
            for tool in provider.tools():
                name = tool.spec.name
                if name in found or name in LOCKED:
                    log.warning("tool name taken", tool=name)
                else:
                    found[name] = tool
        return found
