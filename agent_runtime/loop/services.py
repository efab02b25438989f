"""The services that turns, and the requests for turns, share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from ..learnings import NoLearnings
from ..ports import Clock, Learnings, Model, OpenGate, SideEffectGate, ToolCatalog
from ..sessions import Ids
from ..store import Database
from ..workspace import Home
from .core.agent_rules import AgentRules
from .core.authority import AuthorityResolver
from .core.counters import Counters
from .core.events import EventBus
from .core.live_sessions import LiveSessions
from .core.turn_state import Turn
from .limits.price_check import PriceCheck
from .scheduling.admission import Admission


async def _admit_any_size(_: Turn) -> None:
    return


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopServices:
    """Built once by the server, used by every entry point: HTTP, the mediation channel, the hub, topics and files."""

    database: Database
    clock: Clock
    ids: Ids
    home: Home
    events: EventBus
    counters: Counters
    model: Model
    tool_catalog: ToolCatalog
    authority_resolver: AuthorityResolver
    live_sessions: LiveSessions
    agent_rules: AgentRules
    admission: Admission
    learnings: Learnings = field(default_factory=NoLearnings)
    side_effect_gate: SideEffectGate = field(default_factory=OpenGate)
    parallel_tools: int = 4
    """Tool calls of one step that may run at once."""
    price_check: PriceCheck | None = None
    """None: no model needs a known price."""
    require_fit: Callable[[Turn], Awaitable[None]] = _admit_any_size
    """Checks the message's size before its turn is admitted. Raises TooLarge if it cannot fit the model's window."""
    skills_folder: Path | None = None
    """The folder of plugins; None: there is none."""

    async def require_price(self, turn: Turn) -> None:
        """Raises InvalidRequest if the turn's cost is limited and its model's price is unknown, MeshUnavailable if
        the mesh cannot tell now."""
        if self.price_check is not None:
            await self.price_check.require(turn.model, turn.budget)
