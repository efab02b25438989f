"""What every door needs to admit a turn: HTTP, mediation, hub, triggers and the file drop lead into one hallway."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..learnings import NoLearnings
from ..ports import Clock, Learnings, SnapshotGuard
from ..sessions import Ids
from ..store import Database
from ..workspace import Home
from .compaction.message_size import MessageSizeCheck
from .core.live_sessions import LiveSessions
from .core.turn_state import Turn
from .scheduling.admission import Admission


@dataclass(frozen=True, slots=True)
class LoopServices:
    """The rooms behind the doors."""

    database: Database
    admission: Admission
    live_sessions: LiveSessions
    ids: Ids
    clock: Clock
    home: Home
    snapshot_guard: SnapshotGuard | None = None
    learnings: Learnings = field(default_factory=NoLearnings)
    message_size_check: MessageSizeCheck | None = None
    """None: no message is too long."""

    async def require_fit(self, turn: Turn) -> None:
        """Call this before a turn is admitted. Raises TooLarge for a message that cannot fit its model's window."""
        if self.message_size_check is not None:
            await self.message_size_check.require(turn)
