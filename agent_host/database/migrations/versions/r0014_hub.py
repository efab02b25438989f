"""The hub: agents, sessions, their logs, and how far each agent has come."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    _make_agents_and_sessions()
    _make_deliveries()


def _make_agents_and_sessions() -> None:
    op.create_table(
        "hub_agents",
        sa.Column("agent_id", sa.String(40), primary_key=True),
        sa.Column("name", sa.String(100), nullable=False, unique=True),
        sa.Column("passport", sa.Text, nullable=False),
        sa.Column("resume", sa.Text, nullable=False),
        sa.Column("rule", sa.Text, nullable=False),
        sa.Column("registered_at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "hub_sessions",
        sa.Column("session_id", sa.String(40), primary_key=True),
        sa.Column("type", sa.String(100), nullable=False),
        sa.Column("creator_id", sa.String(40), nullable=False),
        sa.Column("state", sa.String(10), nullable=False),
        sa.Column("snapshot", sa.Text, nullable=False),
        sa.Column("snapshot_sequence", sa.BigInteger, nullable=False),
        sa.Column("fired", sa.Text, nullable=False),
        sa.Column("due_at", sa.BigInteger),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("closed_at", sa.BigInteger),
    )
    op.create_index(
        "hub_sessions_open",
        "hub_sessions",
        ["session_id"],
        unique=False,
        sqlite_where=sa.text("closed_at IS NULL"),
        postgresql_where=sa.text("closed_at IS NULL"),
    )
    op.create_table(
        "hub_envelopes",
        sa.Column("session_id", sa.String(40), primary_key=True),
        sa.Column("sequence", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("envelope_id", sa.String(40), nullable=False, unique=True),
        sa.Column("sender_id", sa.String(40), nullable=False),
        sa.Column("idempotency_key", sa.String(200)),
        sa.Column("causation_id", sa.String(200)),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_index(
        "hub_envelopes_once",
        "hub_envelopes",
        ["session_id", "sender_id", "idempotency_key"],
        unique=True,
        sqlite_where=sa.text("idempotency_key IS NOT NULL"),
        postgresql_where=sa.text("idempotency_key IS NOT NULL"),
    )


def _make_deliveries() -> None:
    op.create_table(
        "hub_cursors",
        sa.Column("session_id", sa.String(40), primary_key=True),
        sa.Column("agent_id", sa.String(40), primary_key=True),
        sa.Column("acked_through", sa.BigInteger, nullable=False),
        sa.Column("acked_above", sa.Text, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("done", sa.Boolean, nullable=False),
    )
    op.create_index(
        "hub_cursors_open",
        "hub_cursors",
        ["agent_id"],
        unique=False,
        sqlite_where=sa.text("NOT done"),
        postgresql_where=sa.text("NOT done"),
    )
    op.create_table(
        "hub_turns",
        sa.Column("session_id", sa.String(40), primary_key=True),
        sa.Column("agent_id", sa.String(40), primary_key=True),
        sa.Column("sequence", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("outcome", sa.String(10), nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "hub_dead_letters",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
        sa.Column("session_id", sa.String(40), nullable=False),
        sa.Column("agent_id", sa.String(40), nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("envelope_id", sa.String(40), nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "hub_audit",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("kind", sa.String(40), nullable=False),
        sa.Column("agent_id", sa.String(40)),
        sa.Column("session_id", sa.String(40)),
        sa.Column("detail", sa.Text, nullable=False),
    )
