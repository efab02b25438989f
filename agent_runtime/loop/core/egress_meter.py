"""What the tools of a turn send out of the workspace, counted before it leaves."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import ToolFailure
from ...ports import EgressMeter


@dataclass(slots=True)
class TurnEgress:
    """Fills EgressMeter: of a turn, or of one call of it."""

    most: int | None = None
    """Bytes; none: it has no bound of its own."""
    above: EgressMeter | None = None
    """Where the same bytes count too: the turn of the call, or the call of the turn that was called."""
    sent: int = 0
    refused: bool = False
    """More was wanted than may leave."""

    @property
    def bounded(self) -> bool:
        return self.most is not None or (self.above is not None and self.above.bounded)

    def let_out(self, count: int) -> None:
        if self.most is not None and self.sent + count > self.most:
            self.refused = True
            text = f"{self.sent} of the {self.most} bytes that may leave were sent, and {count} more are wanted"
            raise ToolFailure(text, kind="denied")
        if self.above is not None:
            self.above.let_out(count)
        self.sent += count
