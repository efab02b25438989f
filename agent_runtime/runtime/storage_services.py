"""Who looks after what is the agent's own: its files, what it has learnt, what it remembers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeVar

from ..learnings import DailyLogWriter, LearningService
from ..memory import EmbeddingSearch, MemoryService
from ..ports import Clock, Mesh
from ..sandbox import Confinement
from ..settings import Settings
from ..store import Database
from ..workspace import (
    MAX_BACKUP_BYTES,
    OWN_BACKUPS,
    FileBackups,
    FileService,
    Home,
    PathLocks,
    PromptFileAuthors,
    WriteQuota,
)
from .secrets import redactor


class Closable(Protocol):
    async def close(self) -> None: ...


T = TypeVar("T", bound=Closable)


class RegisterClosable(Protocol):
    """Takes over what must be closed in the end, and hands it back."""

    def __call__(self, closable: T) -> T: ...


@dataclass(frozen=True, slots=True)
class StorageServices:
    """One set of locks for all who change files, so that they do it one after the other."""

    locks: PathLocks
    backups: FileBackups
    files: FileService
    learnings: LearningService
    daily_log: DailyLogWriter
    memory: MemoryService
    authors: PromptFileAuthors

    @classmethod
    def start(
        cls,
        settings: Settings,
        home: Home,
        database: Database,
        clock: Clock,
        confinement: Confinement,
        register_closable: RegisterClosable,
        mesh: Mesh,
    ) -> StorageServices:
        """All at work; `own` closes them in the end. The home has been given to the user whom commands run as."""
        workspace_bytes = settings.workspace_mb * 2**20
        cleaner = redactor(settings)
        max_backups = min(MAX_BACKUP_BYTES, workspace_bytes // 10)
        locks = PathLocks()
        backups = FileBackups(clock, max_bytes=max_backups, root=home.records)
        write_quota = WriteQuota(confinement, home.workspace, workspace_bytes)
        authors = PromptFileAuthors(home, clock)
        own_backups = FileBackups(clock, max_bytes=OWN_BACKUPS)
        file_service = FileService(home, locks, backups, own_backups, write_quota, authors)
        learnings = register_closable(LearningService(home.records, clock, cleaner, authors=authors))
        daily_log = register_closable(
            DailyLogWriter(
                home, clock, locks, write_quota.require_space, days=settings.daily_log_days, redactor=cleaner
            )
        )
        model = settings.embedding_model
        meaning = EmbeddingSearch(database, mesh, model, clock) if model is not None else None
        memory = register_closable(MemoryService(database, home, clock, cleaner, embeddings=meaning))
        for keeper in (learnings, daily_log, memory):
            keeper.start()
        return cls(locks, backups, file_service, learnings, daily_log, memory, authors)
