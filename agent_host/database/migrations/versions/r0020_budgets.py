"""Budgets, what they have used, what calls under way may use, and who made each call."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0015"


def upgrade() -> None:
    for column in _origin_columns():
        op.add_column("model_calls", column)
    op.create_table(
        "budgets",
        sa.Column("scope", sa.String(210), primary_key=True),
        sa.Column("daily_usd", sa.Float),
        sa.Column("monthly_usd", sa.Float),
        sa.Column("daily_tokens", sa.BigInteger),
        sa.Column("monthly_tokens", sa.BigInteger),
        sa.Column("created_at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "budget_spending",
        sa.Column("scope", sa.String(210), primary_key=True),
        sa.Column("period", sa.String(10), primary_key=True),
        sa.Column("usd", sa.Float, nullable=False),
        sa.Column("tokens", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "call_reserves",
        sa.Column("id", sa.String(40), primary_key=True),
        sa.Column("request_id", sa.String(100), nullable=False),
        sa.Column("agent_id", sa.String(100), nullable=False),
        *_origin_columns(),
        sa.Column("operation", sa.String(20), nullable=False),
        sa.Column("model", sa.String(200), nullable=False),
        sa.Column("provider", sa.String(100), nullable=False),
        sa.Column("upstream_model", sa.String(200), nullable=False),
        sa.Column("streamed", sa.Boolean, nullable=False),
        sa.Column("started_at", sa.BigInteger, nullable=False),
        sa.Column("input", sa.BigInteger, nullable=False),
        sa.Column("output", sa.BigInteger, nullable=False),
        sa.Column("cost_usd", sa.Float),
    )


def _origin_columns() -> list[sa.Column[Any]]:
    return [
        sa.Column("team", sa.String(100), nullable=False, server_default="default"),
        sa.Column("session", sa.String(100)),
        sa.Column("caller_session", sa.String(100)),
        sa.Column("subagent", sa.String(100)),
        sa.Column("principal", sa.String(200)),
    ]
