"""Say what a turn needs of whoever keeps its conversation within the model's window."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Protocol

from agent_common.protocol import Usage
from agent_common.protocol import chunks as c

from ...context import View
from ...errors import ModelError
from ...sessions import Marker, Recorder

if TYPE_CHECKING:
    from ..core.turn_state import Turn


class ContextBudget(Protocol):
    """The context budget as a turn uses it."""

    @property
    def compacted(self) -> bool:
        """Whether the last `compact_if_needed` compacted the conversation."""
        ...

    def compact_if_needed(self, tools: bytes | None, *, forced: bool = False) -> AsyncIterator[c.Chunk]:
        """Compact the conversation if it has grown too long, or in any case with `forced`."""
        ...

    async def require_fits(self, tools: bytes | None) -> None:
        """Raise ModelError `context_overflow` if the turn uses another model than its session and even a compacted
        conversation cannot fit its window. With an unchanged model the provider decides. Call `compact_if_needed`
        first."""
        ...

    def record_usage(self, sent: int, usage: Usage) -> None:
        """Calibrate token counts with the usage of the request that was checked last; it sent that many messages."""
        ...

    def record_overflow(self, error: ModelError) -> None:
        """Learn from the provider's error that a request was too long."""
        ...


class NoCompaction:
    """The context budget of turns that are never compacted."""

    compacted = False

    async def require_fits(self, tools: bytes | None) -> None:
        return

    async def compact_if_needed(self, tools: bytes | None, *, forced: bool = False) -> AsyncIterator[c.Chunk]:
        return
        yield  # an async generator that yields nothing

    def record_usage(self, sent: int, usage: Usage) -> None:
        return

    def record_overflow(self, error: ModelError) -> None:
        return


class ContextBudgets(Protocol):
    """Opens the context budget of each turn."""

    def open_budget(self, turn: Turn, view: View, recorder: Recorder, prompt: str) -> ContextBudget:
        """Open the budget of a turn with rows of its own. `prompt` is the system prompt of its agent."""
        ...

    def open_inline_budget(
        self, turn: Turn, view: View, rebuild_view: Callable[[Marker], View] | None
    ) -> ContextBudget:
        """Open the budget of a turn without rows. `rebuild_view` makes the view after a marker; None: never compact."""
        ...
