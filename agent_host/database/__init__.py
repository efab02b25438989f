"""The host's database: SQLAlchemy Core tables, in SQLite by default or in another database by URL."""

from .copy import copy_sqlite
from .engine import HostDatabase, open_database, sqlite_file
from .pruning import AGENT_EVENTS, BAD_LINE, PruningLimits, pruning_steps, release_free_pages
from .tables import (
    channels,
    constraint_sets,
    deleted_workspaces,
    hub_agents,
    hub_audit,
    hub_cursors,
    hub_dead_letters,
    hub_envelopes,
    hub_sessions,
    hub_turns,
    model_calls,
    task_results,
    tokens,
    work,
    work_audit,
    workspaces,
)

__all__ = [
    "AGENT_EVENTS",
    "BAD_LINE",
    "HostDatabase",
    "PruningLimits",
    "channels",
    "constraint_sets",
    "copy_sqlite",
    "deleted_workspaces",
    "hub_agents",
    "hub_audit",
    "hub_cursors",
    "hub_dead_letters",
    "hub_envelopes",
    "hub_sessions",
    "hub_turns",
    "model_calls",
    "open_database",
    "pruning_steps",
    "release_free_pages",
    "sqlite_file",
    "task_results",
    "tokens",
    "work",
    "work_audit",
    "workspaces",
]
