"""A workspace belongs to a team, and has settings of its runtime."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.add_column("workspaces", sa.Column("team", sa.String(100), nullable=False, server_default="default"))
    op.add_column("workspaces", sa.Column("settings", sa.Text, nullable=False, server_default="{}"))
