"""What the hub keeps: in memory, or in the host's database with group commit."""

from .memory import MemoryStore
from .rows import (
    AgentRemoval,
    AgentRow,
    AuditRow,
    Conflict,
    CursorRow,
    DeadLetterRow,
    EnvelopeRow,
    HubStore,
    OpenSession,
    Row,
    SessionRow,
    StoredSession,
    Submission,
    TurnRow,
)
from .sql import SqlStore

__all__ = [
    "AgentRemoval",
    "AgentRow",
    "AuditRow",
    "Conflict",
    "CursorRow",
    "DeadLetterRow",
    "EnvelopeRow",
    "HubStore",
    "MemoryStore",
    "OpenSession",
    "Row",
    "SessionRow",
    "SqlStore",
    "StoredSession",
    "Submission",
    "TurnRow",
]
