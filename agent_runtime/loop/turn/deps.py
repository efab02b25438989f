"""What a turn works with: its tools, its view, and its ways to the disk and to those who steer it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from agent_common.protocol.authority import Authority

from ...context import View
from ...learnings import NoLearnings
from ...ports import Learnings, Model, OpenGate, SideEffectGate, ToolContext
from ..core.session_cost import PriceCheck
from ..core.turn_state import Turn
from .context_budget import ContextBudget, NoCompaction
from .resume_state import ResumeState
from .turn_tools import TurnTools


async def _no_call(_: str) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class TurnDeps:
    """Wired by the runner for one run of a turn."""

    model: Model
    tools: TurnTools
    view: View
    context: ToolContext
    authority: Callable[[], Authority]
    """What may be done right now."""
    parallel_tools: int
    before_tools: Callable[[], object]
    """Makes ready what tools need; most turns call none and pay nothing for it."""
    checkpoint: Callable[[], Awaitable[None]]
    """Returns once every chunk so far would survive a power cut."""
    save: Callable[[], Awaitable[None]]
    """Returns once every chunk so far would survive a crash."""
    steering: Steering
    resume_state: ResumeState = field(default_factory=ResumeState)
    """How far the turn has come before."""
    learnings: Learnings = field(default_factory=NoLearnings)
    context_budget: ContextBudget = field(default_factory=NoCompaction)
    side_effect_gate: SideEffectGate = field(default_factory=OpenGate)
    has_call: Callable[[str], Awaitable[bool]] = _no_call
    """Whether an earlier reply of the session has a tool call of that id."""
    price_check: PriceCheck | None = None
    """None: no model needs a price."""


class Steering(Protocol):
    """The messages that want to join the turn."""

    def claim_messages(self) -> Sequence[Turn]:
        """Those that wait now; they are the turn's from here on."""
        ...

    async def record_joined(self, messages: Sequence[Turn]) -> None:
        """Writes down that they have joined, together with the chunks that say so. Raises StoreError."""
        ...
