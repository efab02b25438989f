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
    TaskCheckpoint,
    TaskFilter,
    TaskRow,
    TasksEnd,
    TurnRow,
    Violation,
    fenced,
    submit_and_wait,
)
from .sharing import MOST_PEERS, Lease, Renewal, Sharing
from .sql import SqlStore
from .tasks import read_task, task_row

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
    "TaskCheckpoint",
    "TaskFilter",
    "TaskRow",
    "TasksEnd",
    "TurnRow",
    "Violation",
    "fenced",
    "read_task",
    "submit_and_wait",
    "task_row",
]
