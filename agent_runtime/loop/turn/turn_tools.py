"""The tools of one turn: those present when it began, and those that its own calls have added."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from agent_common.protocol.authority import Authority
from agent_common.telemetry import logger

from ...ports import ToolCatalog, Toolset, ToolSpec
from ...sessions import agent_prompts
from ...store import Database
from ..core.turn_state import Turn

MAX_ORDER = 1000
"""Maximum names in a session's order; beyond that only available tools are kept."""

log = logger(__name__)

SaveOrder = Callable[[tuple[str, ...]], object]
"""Stores the order of the session's tools when it has grown."""


class TurnTools:
    """The tools that a session's model sees. New ones are only ever appended
    (docs/explanation/design.md#the-prompt-prefix-never-changes)."""

    def __init__(
        self,
        catalog: ToolCatalog,
        order: Sequence[str],
        authority: Callable[[], Authority],
        save_order: SaveOrder | None = None,
    ) -> None:
        self._authority, self._save_order = authority, save_order
        self._order = tuple(order)
        self.toolset: Toolset = catalog.snapshot(order, authority())
        """The tools that the current step may call."""
        self._grow(None)

    @property
    def specs(self) -> Sequence[ToolSpec]:
        return self.toolset.specs

    def spec(self, name: str) -> ToolSpec | None:
        return self.toolset.spec(name)

    def join(self, names: Sequence[str]) -> None:
        """Add these tools, in their current version, from the next step on."""
        if names:
            before = tuple(spec.name for spec in self.specs)
            self.toolset = self.toolset.with_tools(names, self._authority())
            self._grow(before)

    def _grow(self, before: Sequence[str] | None) -> None:
        """Append newly shown tools to the order. One that comes back during the turn moves to the end, because tools
        that the model has seen must keep their places."""
        shown = tuple(spec.name for spec in self.specs)
        known = self._order if before is None else before
        new = tuple(name for name in shown if name not in known)
        if not new:
            return
        self._order = (*(name for name in self._order if name not in new), *new)
        if len(self._order) > MAX_ORDER:
            self._order = shown
        if self._save_order is not None:
            self._save_order(self._order)


async def open_turn_tools(
    turn: Turn, catalog: ToolCatalog, authority: Callable[[], Authority], database: Database
) -> TurnTools:
    """Return the tools of a turn that begins or resumes. Their order is saved with the session; if that fails, a later
    process may show them in another order."""
    await catalog.ready(authority())
    conversation, agent = turn.session, turn.request.agent

    def keep(order: tuple[str, ...]) -> None:
        conversation.reorder(agent, order)
        own = agent == conversation.agent
        written = database.write(
            partial(agent_prompts.reorder, session_id=conversation.id, agent=agent, own=own, tools=order)
        )
        written.add_done_callback(_on_order_saved)

    brief = conversation.prompt_of(agent)
    return TurnTools(catalog, brief.tools if brief is not None else (), authority, keep)


def _on_order_saved(written: asyncio.Future[None]) -> None:
    if not written.cancelled() and (error := written.exception()) is not None:
        log.warning("the order of a session's tools could not be saved", error=str(error))
