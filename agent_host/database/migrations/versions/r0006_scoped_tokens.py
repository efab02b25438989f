"""A token may speak for one user in some workspaces only, and expire."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.add_column("tokens", sa.Column("scope", sa.Text))
    op.add_column("tokens", sa.Column("expires_at", sa.BigInteger))
