"""What is meant to run is on record, so that it comes back after a restart of the host."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.add_column("workspaces", sa.Column("desired_state", sa.String(20), nullable=False, server_default="stopped"))
    op.execute("UPDATE workspaces SET desired_state = 'running' WHERE state IN ('running', 'starting')")
