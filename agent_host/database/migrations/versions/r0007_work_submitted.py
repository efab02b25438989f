"""Work is listed by the time of its submission, newest first."""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.create_index("work_submitted", "work", ["submitted_at", "request_id"])
