"""A channel may be required. Those of machines and containers always were; what ran as a process was free."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.add_column("channels", sa.Column("required", sa.Boolean, nullable=False, server_default=sa.false()))
    channels = sa.table("channels", sa.column("workspace", sa.String), sa.column("required", sa.Boolean))
    workspaces = sa.table("workspaces", sa.column("id", sa.String), sa.column("driver", sa.String))
    machines = sa.select(workspaces.c.id).where(workspaces.c.driver.in_(("qemu", "firecracker", "container")))
    op.execute(channels.update().where(channels.c.workspace.in_(machines)).values(required=True))
