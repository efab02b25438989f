"""The host's database: SQLAlchemy Core tables, in SQLite by default or in another database by URL."""

from .engine import HostDatabase, open_database
from .pruning import PruningLimits, pruning_steps, release_free_pages
from .tables import channels, constraint_sets, model_calls, tokens, work, work_audit, workspaces

__all__ = [
    "HostDatabase",
    "PruningLimits",
    "channels",
    "constraint_sets",
    "model_calls",
    "open_database",
    "pruning_steps",
    "release_free_pages",
    "tokens",
    "work",
    "work_audit",
    "workspaces",
]
