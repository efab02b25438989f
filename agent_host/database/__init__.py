"""Where the host keeps what must outlive it: SQLAlchemy Core tables, SQLite by default, any engine by URL."""

from .engine import Database, open_database
from .tables import channels, constraint_sets, model_calls, tokens, work, work_audit, workspaces

__all__ = [
    "Database",
    "channels",
    "constraint_sets",
    "model_calls",
    "open_database",
    "tokens",
    "work",
    "work_audit",
    "workspaces",
]
