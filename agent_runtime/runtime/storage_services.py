"""Who looks after what is the agent's own: its files, what it has learnt, what it remembers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeVar

from ..learnings import DiaryKeeper, LearningKeeper
from ..memory import Meaning, MemoryKeeper
from ..ports import Clock, Mesh
from ..sandbox import Confinement
from ..settings import Settings
from ..store import Database
from ..workspace import MOST_BACKUPS, OWN_BACKUPS, Backups, Home, PathLocks, Ration, Shelf
from .secrets import secrets


class Closable(Protocol):
    async def close(self) -> None: ...


T = TypeVar("T", bound=Closable)


class Own(Protocol):
    """Takes over what must be closed in the end, and hands it back."""

    def __call__(self, thing: T) -> T: ...


@dataclass(frozen=True, slots=True)
class Household:
    """One set of locks for all who change files, so that they do it one after the other."""

    locks: PathLocks
    backups: Backups
    shelf: Shelf
    learnings: LearningKeeper
    diary: DiaryKeeper
    memory: MemoryKeeper

    @classmethod
    def set_up(
        cls,
        settings: Settings,
        home: Home,
        database: Database,
        clock: Clock,
        confinement: Confinement,
        own: Own,
        mesh: Mesh,
    ) -> Household:
        """All at work; `own` closes them in the end. The home has been given to the user whom commands run as."""
        room, hidden = settings.workspace_mb * 2**20, secrets(settings)
        locks, backups = PathLocks(), Backups(clock, most=min(MOST_BACKUPS, room // 10))
        ration = Ration(confinement, home.workspace, room)
        shelf = Shelf(home, locks, backups, Backups(clock, most=OWN_BACKUPS), ration)
        learnings = own(LearningKeeper(home.workspace, clock, hidden))
        diary = own(DiaryKeeper(home, clock, locks, ration.admit, days=settings.daily_log_days, secrets=hidden))
        model = settings.embedding_model
        meaning = Meaning(database, mesh, model, clock) if model is not None else None
        memory = own(MemoryKeeper(database, home, clock, hidden, meaning=meaning))
        for keeper in (learnings, diary, memory):
            keeper.start()
        return cls(locks, backups, shelf, learnings, diary, memory)
