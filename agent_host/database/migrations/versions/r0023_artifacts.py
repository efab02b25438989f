"""Artifacts of teams, and their versions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
_KEY = sa.String(512).with_variant(sa.String(512, collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "artifact_teams",
        sa.Column("team", sa.String(100), primary_key=True),
        sa.Column("names", sa.Integer, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "artifacts",
        sa.Column("team", sa.String(100), primary_key=True),
        sa.Column("name", _KEY, primary_key=True),
        sa.Column("newest", sa.BigInteger, nullable=False),
        sa.Column("current", sa.BigInteger),
        sa.Column("deleted_at", sa.BigInteger),
    )
    op.create_index("artifacts_deleted", "artifacts", ["team", "deleted_at"])
    op.create_table(
        "artifact_versions",
        sa.Column("team", sa.String(100), primary_key=True),
        sa.Column("name", _KEY, primary_key=True),
        sa.Column("version", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("file", sa.String(40), nullable=False, unique=True),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("media_type", sa.String(200), nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.Column("updated_by", sa.String(100), nullable=False),
        sa.Column("cause", sa.Text, nullable=False),
    )
