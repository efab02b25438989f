"""Which callers of work wait for its end: an agent that has handed work off may be asked by whoever does it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"


def upgrade() -> None:
    op.add_column("agent_requests", sa.Column("waiting", sa.Integer))
