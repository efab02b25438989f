"""Name what one run of a turn depends on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ...context import View
from ...ports import Learnings, Model, OpenGate, SideEffectGate, ToolContext
from ..core.turn_state import Turn
from ..limits.price_check import PriceCheck
from .approval_codes import ApprovalCodes
from .context_budget import ContextBudget, NoCompaction
from .resume_state import ResumeState
from .turn_tools import TurnTools


class StreamLimit(Protocol):
    """Bounds the streams of all turns that run. `Admission` has it."""

    def stream_fits(self, turn: Turn) -> bool:
        """Whether the stream of a running turn may grow."""
        ...


class TurnServices(Protocol):
    """What all turns share. `LoopServices` has it."""

    @property
    def model(self) -> Model: ...

    @property
    def parallel_tools(self) -> int: ...

    @property
    def learnings(self) -> Learnings: ...

    @property
    def price_check(self) -> PriceCheck | None: ...

    @property
    def admission(self) -> StreamLimit: ...


class ReplyRecorder(Protocol):
    """Saves the chunks that a turn has yielded."""

    async def save(self, *, durable: bool = True) -> None:
        """Return once every chunk yielded so far would survive a power cut, or without `durable` a crash of this
        process."""
        ...


class NoRecorder:
    """Implements ReplyRecorder for a turn without rows of its own."""

    async def save(self, *, durable: bool = True) -> None:
        return


class Steering(Protocol):
    """Gives access to the steering messages that wait for this turn."""

    def claim_messages(self) -> Sequence[Turn]:
        """Take the waiting messages out of the queue. Record them with `record_joined`."""
        ...

    async def record_joined(self, messages: Sequence[Turn]) -> None:
        """Save that they have joined, together with their chunks. Raises StoreError, after queueing them again."""
        ...


class NoSteering:
    """Implements Steering for a turn that no message can join."""

    def claim_messages(self) -> Sequence[Turn]:
        return ()

    async def record_joined(self, messages: Sequence[Turn]) -> None:
        return


def _no_scratch() -> None:
    return


async def _no_call(_: str) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnDeps:
    """What one run of a turn needs. Built by `TurnRunner`, and by `run_inline` with most defaults."""

    services: TurnServices
    tools: TurnTools
    view: View
    tool_context: ToolContext
    """The context of every tool call, before the call's own id and authority are filled in."""
    context_budget: ContextBudget = field(default_factory=NoCompaction)
    recorder: ReplyRecorder = field(default_factory=NoRecorder)
    prepare_scratch: Callable[[], object] = _no_scratch
    """Creates the scratch folder. Called before tools run, so that a turn without tools does not pay for it."""
    steering: Steering = field(default_factory=NoSteering)
    resume_state: ResumeState = field(default_factory=ResumeState)
    """What earlier runs of this turn have recorded."""
    side_effect_gate: SideEffectGate = field(default_factory=OpenGate)
    session_has_tool_call: Callable[[str], Awaitable[bool]] = _no_call
    """Returns whether an earlier reply of the session has a tool call with that id."""
    approval_codes: ApprovalCodes = field(default_factory=ApprovalCodes)
