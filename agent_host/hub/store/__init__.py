"""What the hub keeps: in memory, or in the host's database with group commit."""

from .changes import Change
from .doorbell import Doorbell
from .memory import MemoryStore
from .rows import (
    AgentRemoval,
    AgentRow,
    AuditRow,
    Conflict,
    CursorRow,
    DeadLetterRow,
    EnvelopeRow,
    Fenced,
    HubStore,
    LeaseEnd,
    OpenSession,
    Row,
    SessionRow,
    StoredSession,
    Submission,
    TurnRow,
    Violation,
    fenced,
)
from .sharing import MOST_PEERS, Lease, Renewal, Sharing
from .sql import SqlStore

__all__ = [
    "MOST_PEERS",
    "AgentRemoval",
    "AgentRow",
    "AuditRow",
    "Change",
    "Conflict",
    "CursorRow",
    "DeadLetterRow",
    "Doorbell",
    "EnvelopeRow",
    "Fenced",
    "HubStore",
    "Lease",
    "LeaseEnd",
    "MemoryStore",
    "OpenSession",
    "Renewal",
    "Row",
    "SessionRow",
    "Sharing",
    "SqlStore",
    "StoredSession",
    "Submission",
    "TurnRow",
    "Violation",
    "fenced",
]
