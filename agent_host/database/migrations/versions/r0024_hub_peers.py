"""Hubs that share a database: who runs, which hub delivers to which agent, and what has changed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    op.create_table(
        "hub_peers",
        sa.Column("peer_id", sa.String(40), primary_key=True),
        sa.Column("slot", sa.Integer, nullable=False, unique=True),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "hub_leases",
        sa.Column("agent_id", sa.String(40), primary_key=True),
        sa.Column("peer_id", sa.String(40), index=True),
        sa.Column("fence", sa.BigInteger, nullable=False),
        sa.Column("key_hash", sa.String(64), nullable=False),
    )
    op.create_table(
        "hub_changes",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("peer_id", sa.String(40), nullable=False),
        sa.Column("kind", sa.String(10), nullable=False),
        sa.Column("subject", sa.String(40), nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
    )
