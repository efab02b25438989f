"""Tokens, the ledger of model calls, and the fleet's workspaces."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "tokens",
        sa.Column("digest", sa.String(64), primary_key=True),
        sa.Column("agent_id", sa.String(100), nullable=False),
        sa.Column("purpose", sa.String(20), nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
    )
    op.create_index("ix_tokens_agent_id", "tokens", ["agent_id"])
    op.create_table(
        "model_calls",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
        sa.Column("request_id", sa.String(100), nullable=False),
        sa.Column("agent_id", sa.String(100), nullable=False),
        sa.Column("operation", sa.String(20), nullable=False),
        sa.Column("model", sa.String(200), nullable=False),
        sa.Column("provider", sa.String(100), nullable=False),
        sa.Column("upstream_model", sa.String(200), nullable=False),
        sa.Column("streamed", sa.Boolean, nullable=False),
        sa.Column("status", sa.String(20), nullable=False),
        sa.Column("http_status", sa.Integer),
        sa.Column("started_at", sa.BigInteger, nullable=False),
        sa.Column("duration_ms", sa.Integer, nullable=False),
        sa.Column("input", sa.BigInteger),
        sa.Column("output", sa.BigInteger),
        sa.Column("reasoning", sa.BigInteger),
        sa.Column("cache_read", sa.BigInteger),
        sa.Column("cache_write", sa.BigInteger),
        sa.Column("cost_usd", sa.Float),
    )
    op.create_index("model_calls_by_agent", "model_calls", ["agent_id", "id"])
    op.create_table(
        "workspaces",
        sa.Column("id", sa.String(100), primary_key=True),
        sa.Column("driver", sa.String(50), nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("detail", sa.Text),
        sa.Column("url", sa.String(200), nullable=False),
        sa.Column("token", sa.String(100), nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
    )
