"""What the tools of a turn send out of the workspace, counted before it leaves."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import ToolFailure
from ...ports import EgressMeter


@dataclass(slots=True)
class TurnEgress:
    """Fills EgressMeter: of a turn, or of one call of it."""

    max_bytes: int | None = None
    """Bytes; none: it has no bound of its own."""
    parent: EgressMeter | None = None
    """Where the same bytes count too: the turn of the call, or the call of the turn that was called."""
    sent_bytes: int = 0
    exceeded: bool = False
    """More was wanted than may leave."""

    @property
    def limited(self) -> bool:
        return self.max_bytes is not None or (self.parent is not None and self.parent.limited)

    def count_sent(self, count: int) -> None:
        if self.max_bytes is not None and self.sent_bytes + count > self.max_bytes:
            self.exceeded = True
            text = (
                f"{self.sent_bytes} of the {self.max_bytes} bytes that may leave were sent, and {count} more are wanted"
            )
            raise ToolFailure(text, kind="denied")
        if self.parent is not None:
            self.parent.count_sent(count)
        self.sent_bytes += count
