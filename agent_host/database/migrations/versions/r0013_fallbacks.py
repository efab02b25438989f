"""Which model was asked for, where another has answered, and why."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    op.add_column("model_calls", sa.Column("asked_model", sa.String(200)))
    op.add_column("model_calls", sa.Column("fallback_reason", sa.Text))
