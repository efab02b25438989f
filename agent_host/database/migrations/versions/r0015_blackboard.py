"""The blackboards of teams: entries, and the log of their changes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
_KEY = sa.String(512).with_variant(sa.String(512, collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "blackboards",
        sa.Column("team", sa.String(100), primary_key=True),
        sa.Column("newest", sa.BigInteger, nullable=False),
        sa.Column("oldest", sa.BigInteger, nullable=False),
        sa.Column("entries", sa.Integer, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("log_bytes", sa.BigInteger, nullable=False),
    )
    _make_entries()
    op.create_table(
        "blackboard_changes",
        sa.Column("team", sa.String(100), primary_key=True),
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("key", _KEY, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("kind", sa.String(10), nullable=False),
        sa.Column("value", sa.Text),
        sa.Column("size", sa.Integer, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("by", sa.String(100), nullable=False),
        sa.Column("cause", sa.Text, nullable=False),
    )
    op.create_index("blackboard_changes_by_key", "blackboard_changes", ["team", "key", "version"])


def _make_entries() -> None:
    op.create_table(
        "blackboard_entries",
        sa.Column("team", sa.String(100), primary_key=True),
        sa.Column("key", _KEY, primary_key=True),
        sa.Column("value", sa.Text),
        sa.Column("size", sa.Integer, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("change", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.Column("updated_by", sa.String(100), nullable=False),
        sa.Column("cause", sa.Text, nullable=False),
        sa.Column("expires_at", sa.BigInteger),
        sa.Column("claim_id", sa.String(40)),
        sa.Column("claimed_by", sa.String(100)),
        sa.Column("claimed_until", sa.BigInteger),
    )
    for name, columns, where in (
        ("blackboard_entries_due", ["expires_at"], "value IS NOT NULL AND expires_at IS NOT NULL"),
        ("blackboard_entries_deleted", ["team", "change"], "value IS NULL"),
    ):
        op.create_index(
            name, "blackboard_entries", columns, sqlite_where=sa.text(where), postgresql_where=sa.text(where)
        )
