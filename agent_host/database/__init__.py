"""Where the host keeps what must outlive it: SQLAlchemy Core tables, SQLite by default, any engine by URL."""

from .engine import Database, open_database
from .tables import model_calls, tokens, workspaces

__all__ = ["Database", "model_calls", "open_database", "tokens", "workspaces"]
