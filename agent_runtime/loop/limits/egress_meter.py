"""Count the bytes that a turn's tools send out of the workspace, before they are sent."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import ToolFailure
from ...ports import EgressMeter


@dataclass(slots=True)
class TurnEgress:
    """The EgressMeter of a turn or of one of its calls."""

    max_bytes: int | None = None
    """Maximum bytes; None: no limit of its own."""
    parent: EgressMeter | None = None
    """The meter that counts the same bytes too: that of the call's turn, or of the calling turn."""
    sent_bytes: int = 0
    exceeded: bool = False
    """A tool wanted to send more than the limit allows."""

    @property
    def limited(self) -> bool:
        return self.max_bytes is not None or (self.parent is not None and self.parent.limited)

    def count_sent(self, count: int) -> None:
        if self.max_bytes is not None and self.sent_bytes + count > self.max_bytes:
            self.exceeded = True
            text = f"{self.sent_bytes} of {self.max_bytes} allowed bytes were sent, and {count} more are needed"
            raise ToolFailure(text, kind="denied")
        if self.parent is not None:
            self.parent.count_sent(count)
        self.sent_bytes += count
