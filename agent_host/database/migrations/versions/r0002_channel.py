"""The mediation channel: its ends, their constraints, the ledger of work and the audit trail."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table(
        "channels",
        sa.Column("workspace", sa.String(100), primary_key=True),
        sa.Column("dialect", sa.String(10), nullable=False),
        sa.Column("auth", sa.String(10), nullable=False),
        sa.Column("listen", sa.String(300)),
        sa.Column("key", sa.String(100)),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("fence", sa.String(20)),
        sa.Column("fence_reason", sa.Text),
        sa.Column("drained", sa.Boolean, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "constraint_sets",
        sa.Column("workspace", sa.String(100), primary_key=True),
        sa.Column("version", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("hash", sa.String(200), nullable=False),
        sa.Column("payload", sa.LargeBinary, nullable=False),
        sa.Column("payload_ref", sa.Text, nullable=False),
        sa.Column("severity", sa.String(10), nullable=False),
        sa.Column("effective_at", sa.String(64), nullable=False),
        sa.Column("status", sa.String(20), nullable=False),
        sa.Column("acked_at", sa.BigInteger),
        sa.Column("created_at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "work",
        sa.Column("request_id", sa.String(200), primary_key=True),
        sa.Column("workspace", sa.String(100), nullable=False),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("request", sa.Text, nullable=False),
        sa.Column("pinned", sa.Boolean, nullable=False),
        sa.Column("status", sa.String(20), nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("deliveries", sa.Integer, nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("version", sa.BigInteger),
        sa.Column("not_before", sa.BigInteger),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.Column("cancel_reason", sa.Text),
        sa.Column("error", sa.Text),
        sa.Column("result", sa.Text),
        sa.Column("submitted_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.Column("finished_at", sa.BigInteger),
        sa.Column("delivered_at", sa.BigInteger),
    )
    # Of what is open only, so that work that is over costs it nothing, and a change of its state neither.
    unfinished = sa.text("finished_at IS NULL")
    op.create_index("work_open", "work", ["submitted_at"], sqlite_where=unfinished, postgresql_where=unfinished)
    op.create_table(
        "work_audit",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("workspace", sa.String(100)),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("connection", sa.BigInteger, nullable=False),
        sa.Column("direction", sa.String(10), nullable=False),
        sa.Column("type", sa.String(50), nullable=False),
        sa.Column("request_id", sa.String(200)),
        sa.Column("audit_ref", sa.Text),
        sa.Column("bytes", sa.Integer, nullable=False),
        sa.Column("hash", sa.String(64)),
        sa.Column("detail", sa.Text),
        sa.Column("content", sa.Text),
    )
    op.create_index("work_audit_by_request", "work_audit", ["request_id", "id"])
    op.create_index("work_audit_by_workspace", "work_audit", ["workspace", "id"])
