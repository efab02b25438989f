"""The table of tasks on the hub. Each change here needs a new file under `migrations/versions`."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, String, Table, Text, text

from .tables import metadata

_LIVE = "completed_at IS NULL"

hub_tasks = Table(
    "hub_tasks",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("task_id", String(128), nullable=False, unique=True),
    Column("version", BigInteger, nullable=False, comment="one more with each change: who has read an older one fails"),
    Column("owner_id", String(40), nullable=False),
    Column("session_id", String(40), comment="null: it belongs to none"),
    Column("state", String(10), nullable=False, comment="as in the task"),
    Column("expires_at", BigInteger, comment="epoch milliseconds; null: never"),
    Column("completed_at", BigInteger, comment="epoch milliseconds; null: it is not over"),
    Column("task", Text, nullable=False, comment="JSON: the task"),
    Column("checkpoint", Text, comment="JSON: where its owner may go on; null: there is none"),
    Index("hub_tasks_by_owner", "owner_id", "task_id"),
    Index("hub_tasks_by_session", "session_id", "task_id"),
    Index("hub_tasks_live", "owner_id", sqlite_where=text(_LIVE), postgresql_where=text(_LIVE)),
    Index("hub_tasks_over", "completed_at"),
)
