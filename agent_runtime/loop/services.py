"""What every door needs to admit a turn: HTTP, mediation, hub, triggers and the file drop lead into one hallway."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..learnings import NoLearnings
from ..ports import Clock, Learnings, Snapshots
from ..sessions import Ids
from ..store import Database
from ..workspace import Home
from .core.live_sessions import Conversations
from .core.turn_state import Turn
from .requests.message_size import Fitting
from .scheduling.admission import Admission


@dataclass(frozen=True, slots=True)
class Hallway:
    """The rooms behind the doors."""

    database: Database
    admission: Admission
    conversations: Conversations
    ids: Ids
    clock: Clock
    home: Home
    snapshots: Snapshots | None = None
    learnings: Learnings = field(default_factory=NoLearnings)
    fitting: Fitting | None = None
    """None: no message is too long."""

    async def require_fit(self, turn: Turn) -> None:
        """Call this before a turn is admitted. Raises TooLarge for a message that cannot fit its model's window."""
        if self.fitting is not None:
            await self.fitting.require(turn)
