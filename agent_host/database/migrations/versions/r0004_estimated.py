"""The usage of a model call may be an estimate."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.add_column("model_calls", sa.Column("estimated", sa.Boolean, nullable=False, server_default=sa.false()))
