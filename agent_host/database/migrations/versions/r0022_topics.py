"""Topics of teams, and their messages."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
_KEY = sa.String(512).with_variant(sa.String(512, collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "topics",
        sa.Column("team", sa.String(100), primary_key=True),
        sa.Column("name", _KEY, primary_key=True),
        sa.Column("newest", sa.BigInteger, nullable=False),
        sa.Column("oldest", sa.BigInteger, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "topic_messages",
        sa.Column("team", sa.String(100), primary_key=True),
        sa.Column("topic", _KEY, primary_key=True),
        sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("id", sa.String(200), nullable=False),
        sa.Column("data", sa.Text, nullable=False),
        sa.Column("size", sa.Integer, nullable=False),
        sa.Column("by", sa.String(100), nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("cause", sa.Text, nullable=False),
        sa.UniqueConstraint("team", "topic", "by", "id", name="topic_messages_once"),
    )
