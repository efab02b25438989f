"""The host's database: SQLAlchemy Core tables, in SQLite by default or in another database by URL."""

from .batch_writer import BatchWriter, lock_shared
from .copy import copy_sqlite
from .engine import HostDatabase, open_database, sqlite_file
from .mesh_tables import blackboard_changes, blackboard_entries, blackboards, topic_messages, topics
from .pruning import PruningLimits, pruning_steps, release_free_pages
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
    "BatchWriter",
    "HostDatabase",
    "PruningLimits",
    "blackboard_changes",
    "blackboard_entries",
    "blackboards",
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
    "lock_shared",
    "model_calls",
    "open_database",
    "pruning_steps",
    "release_free_pages",
    "sqlite_file",
    "task_results",
    "tokens",
    "topic_messages",
    "topics",
    "work",
    "work_audit",
    "workspaces",
]
