"""What has become of the values that the result of a task promotes to the blackboard."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    op.add_column("task_results", sa.Column("promotions", sa.Text))
