"""Cards of agents, and the work that agents give each other."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"


def upgrade() -> None:
    op.create_table(
        "agent_cards",
        sa.Column("agent_id", sa.String(100), primary_key=True),
        sa.Column("card", sa.Text, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "agent_requests",
        sa.Column("request_id", sa.String(200), primary_key=True),
        sa.Column("caller", sa.String(100), nullable=False),
        sa.Column("callers", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
    )
    op.create_index("agent_requests_by_caller", "agent_requests", ["caller", "created_at"])
