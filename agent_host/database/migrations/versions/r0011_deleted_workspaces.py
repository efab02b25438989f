"""The epochs of deleted workspaces are kept, so that a new workspace of the same id is given none of them again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.create_table(
        "deleted_workspaces",
        sa.Column("workspace", sa.String(100), primary_key=True),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("deleted_at", sa.BigInteger, nullable=False),
    )
