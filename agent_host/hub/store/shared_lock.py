"""What one hub must not write at the same time as another: all they write, in transactions of milliseconds."""

from __future__ import annotations

from sqlalchemy import Connection, text

CHANNEL = "agent_hub"
"""The doorbell's channel: PostgreSQL tells who listens that something was written."""
_LOCK = 0x68756273
_IDLE_MS = 5_000
"""After which the server ends a transaction whose hub has stopped in the middle, so that it holds up no other."""
_WAIT_MS = 15_000
"""Most that a hub waits for the others."""
_TAKE = text(
    "SELECT set_config('idle_in_transaction_session_timeout', :idle, true),"
    " set_config('lock_timeout', :wait, true), set_config('statement_timeout', :wait, true)"
)


def bound_waits(connection: Connection) -> None:
    """Have the server end this transaction if it waits or stands still for too long."""
    connection.execute(_TAKE, {"idle": str(_IDLE_MS), "wait": str(_WAIT_MS)})


def lock_hubs(connection: Connection) -> None:
    """Wait until no other hub writes; the lock is held to the end of this transaction.

    So what was read under it stays true until then, and numbers of changes become visible in their order."""
    bound_waits(connection)
    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})


def ring(connection: Connection, peer_id: str) -> None:
    """Wake the other hubs once this transaction is committed."""
    connection.execute(text("SELECT pg_notify(:channel, :who)"), {"channel": CHANNEL, "who": peer_id})
