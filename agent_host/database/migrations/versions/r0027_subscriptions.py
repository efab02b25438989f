"""Subscriptions of agents to topics, and the messages that their agents have not taken."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
_KEY = sa.String(512).with_variant(sa.String(512, collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "topic_subscriptions",
        sa.Column("id", sa.String(40), primary_key=True),
        sa.Column("agent", sa.String(100), nullable=False),
        sa.Column("team", sa.String(100), nullable=False),
        sa.Column("session", sa.String(200), nullable=False),
        sa.Column("topic", _KEY, nullable=False),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("handed", sa.BigInteger, nullable=False),
        sa.Column("dropped", sa.BigInteger, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("reason", sa.String(500)),
        sa.Column("lease_until", sa.BigInteger, nullable=False),
        sa.Column("due_at", sa.BigInteger, nullable=False),
        sa.Column("rate_until", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("agent", "session", "topic", name="topic_subscriptions_once"),
    )
    op.create_index("topic_subscriptions_by_topic", "topic_subscriptions", ["team", "topic"])
    op.create_table(
        "topic_dead_letters",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
        sa.Column("subscription_id", sa.String(40), nullable=False),
        sa.Column("agent", sa.String(100), nullable=False),
        sa.Column("team", sa.String(100), nullable=False),
        sa.Column("session", sa.String(200), nullable=False),
        sa.Column("topic", _KEY, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("message_id", sa.String(200), nullable=False),
        sa.Column("reason", sa.String(500), nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
    )
