"""Results of tasks, with the state of their callbacks, and where a workspace wants its results sent."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    op.add_column("channels", sa.Column("result_url", sa.Text))
    op.add_column("channels", sa.Column("result_secret", sa.String(200)))
    op.create_table(
        "task_results",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
        sa.Column("workspace", sa.String(100), nullable=False),
        sa.Column("task_id", sa.String(200), nullable=False),
        sa.Column("principal", sa.String(200), nullable=False),
        sa.Column("finished_at", sa.BigInteger, nullable=False),
        sa.Column("recorded_at", sa.BigInteger, nullable=False),
        sa.Column("result", sa.Text, nullable=False),
        sa.Column("truncated", sa.Boolean, nullable=False),
        sa.Column("delivery", sa.String(64)),
        sa.Column("delivery_url", sa.Text),
        sa.Column("delivery_host", sa.String(260)),
        sa.Column("delivery_state", sa.String(20)),
        sa.Column("delivery_attempts", sa.Integer, nullable=False, server_default="0"),
        sa.Column("delivery_next_at", sa.BigInteger),
        sa.Column("delivery_error", sa.Text),
        sa.UniqueConstraint("task_id", "workspace", "principal", "finished_at", name="task_results_once"),
    )
    op.create_index("task_results_by_workspace", "task_results", ["workspace", "id"])
    pending = sa.text("delivery_state = 'pending'")
    op.create_index(
        "task_results_pending",
        "task_results",
        ["delivery_next_at"],
        sqlite_where=pending,
        postgresql_where=pending,
    )
