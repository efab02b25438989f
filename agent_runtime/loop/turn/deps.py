"""The dependencies of one turn: its tools, its view, the database and the messages that steer it."""

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
    """Dependencies that the runner wires for one run of a turn."""

    model: Model
    tools: TurnTools
    view: View
    context: ToolContext
    authority: Callable[[], Authority]
    """Returns the authority of the turn at this moment."""
    parallel_tools: int
    before_tools: Callable[[], object]
    """Prepares what tools need; most turns call no tool and skip this cost."""
    checkpoint: Callable[[], Awaitable[None]]
    """Returns once all chunks so far would survive a power failure."""
    save: Callable[[], Awaitable[None]]
    """Returns once all chunks so far would survive a crash."""
    steering: Steering
    resume_state: ResumeState = field(default_factory=ResumeState)
    """Progress of the turn before this run."""
    learnings: Learnings = field(default_factory=NoLearnings)
    context_budget: ContextBudget = field(default_factory=NoCompaction)
    side_effect_gate: SideEffectGate = field(default_factory=OpenGate)
    has_call: Callable[[str], Awaitable[bool]] = _no_call
    """Whether an earlier reply of the session has a tool call of that id."""
    price_check: PriceCheck | None = None
    """None: the price of the model is not checked."""


class Steering(Protocol):
    """The messages that want to join the turn."""

    def claim_messages(self) -> Sequence[Turn]:
        """Take the waiting messages, which belong to this turn from now on."""
        ...

    async def record_joined(self, messages: Sequence[Turn]) -> None:
        """Record that they have joined, together with the chunks that say so. Raises StoreError."""
        ...
