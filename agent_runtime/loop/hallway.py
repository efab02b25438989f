"""What every door needs to admit a turn: HTTP, mediation, hub, triggers and the file drop lead into one hallway."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..ports import Clock, Learnings, Snapshots
from ..sessions import Ids
from ..store import Database
from ..workspace import Home, NoLearnings
from .admission import Admission
from .conversations import Conversations


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
