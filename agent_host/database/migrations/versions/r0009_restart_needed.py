"""A workspace remembers that its runtime was started before its settings were changed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.add_column("workspaces", sa.Column("restart_needed", sa.Boolean, nullable=False, server_default=sa.false()))
