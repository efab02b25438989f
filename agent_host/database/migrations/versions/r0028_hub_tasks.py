"""Tasks on the hub."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"


def upgrade() -> None:
    op.create_table(
        "hub_tasks",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
        sa.Column("task_id", sa.String(128), nullable=False, unique=True),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("owner_id", sa.String(40), nullable=False),
        sa.Column("session_id", sa.String(40)),
        sa.Column("state", sa.String(10), nullable=False),
        sa.Column("expires_at", sa.BigInteger),
        sa.Column("completed_at", sa.BigInteger),
        sa.Column("task", sa.Text, nullable=False),
        sa.Column("checkpoint", sa.Text),
    )
    op.create_index("hub_tasks_by_owner", "hub_tasks", ["owner_id", "task_id"])
    op.create_index("hub_tasks_by_session", "hub_tasks", ["session_id", "task_id"])
    live = sa.text("completed_at IS NULL")
    op.create_index("hub_tasks_live", "hub_tasks", ["owner_id"], sqlite_where=live, postgresql_where=live)
    op.create_index("hub_tasks_over", "hub_tasks", ["completed_at"])
