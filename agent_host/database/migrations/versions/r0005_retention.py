"""What is over is found by its end, so that it can be deleted when it is old."""

from __future__ import annotations

from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.create_index("work_finished", "work", ["finished_at"])
