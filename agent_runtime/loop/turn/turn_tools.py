"""The tools of one turn: those present when it began, and those that its own calls have added."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter

from agent_common.protocol.authority import Authority
from agent_common.telemetry import logger

from ...context import serialize_tools
from ...ports import ToolCatalog, Toolset, ToolSpec
from ...sessions import agent_prompts
from ...store import Database
from ..core.turn_state import Turn

MAX_ORDER = 1000
"""Maximum names in a session's order; beyond that only available tools are kept."""

log = logger(__name__)

_NAME = attrgetter("name")
SaveOrder = Callable[[tuple[str, ...]], object]
"""Stores the order of the session's tools when it has grown."""


class TurnTools:
    """The tools of one turn, in the order in which the session's model has seen them. New ones are only ever appended
    (docs/explanation/design.md#the-prompt-prefix-never-changes)."""

    def __init__(
        self,
        toolset: Toolset,
        order: Sequence[str],
        authority: Callable[[], Authority],
        save_order: SaveOrder | None = None,
    ) -> None:
        self.authority = authority
        """Returns the authority that holds now."""
        self._save_order = save_order
        self._order = tuple(order)
        self.toolset = toolset
        """The tools that the current step may call."""
        self.schemas = serialize_tools(self.toolset.specs)
        """Their definitions as the model reads them; None if there are none."""
        self._append_new(self._order)

    def spec(self, name: str) -> ToolSpec | None:
        return self.toolset.spec(name)

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._shown_names())

    @property
    def show_outside_text(self) -> bool:
        """Whether the model reads descriptions that the MCP server of a tool has written."""
        return any(spec.source == "mcp" for spec in self.toolset.specs)

    def add(self, names: Sequence[str]) -> None:
        """Add these tools, in their current version, from the next step on."""
        if names:
            shown_before = self._shown_names()
            self.toolset = self.toolset.with_tools(names, self.authority())
            self.schemas = serialize_tools(self.toolset.specs)
            self._append_new(shown_before)

    def _shown_names(self) -> tuple[str, ...]:
        return tuple(map(_NAME, self.toolset.specs))

    def _append_new(self, already_shown: Sequence[str]) -> None:
        """Put tools that were not shown until now at the end of the order, even if the stored order had them earlier:
        tools that the model has seen keep their places."""
        shown = self._shown_names()
        if shown == already_shown:  # as in nearly every turn
            return
        new = tuple(name for name in shown if name not in already_shown)
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
    session = turn.session
    agent = turn.request.agent
    at_start = authority()
    await catalog.ready(at_start)

    def save_order(order: tuple[str, ...]) -> None:
        session.reorder(agent, order)
        write = database.write(
            partial(agent_prompts.reorder, session_id=session.id, agent=agent, own=agent == session.agent, tools=order)
        )
        write.add_done_callback(_on_order_saved)

    order = session.prompts[agent].tools
    return TurnTools(catalog.snapshot(order, at_start), order, authority, save_order)


def _on_order_saved(written: asyncio.Future[None]) -> None:
    if not written.cancelled() and (error := written.exception()) is not None:
        log.warning("the order of a session's tools could not be saved", error=str(error))
