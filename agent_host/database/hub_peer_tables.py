"""The tables of hubs that share a database. Each change here needs a new file under `migrations/versions`."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Integer, String, Table, Text

from .tables import metadata

hub_peers = Table(
    "hub_peers",
    metadata,
    Column("peer_id", String(40), primary_key=True),
    Column("slot", Integer, nullable=False, unique=True, comment="makes the ids of its envelopes its own"),
    Column("expires_at", BigInteger, nullable=False, comment="when its leases end, by the clock of the database"),
)

hub_leases = Table(
    "hub_leases",
    metadata,
    Column("agent_id", String(40), primary_key=True),
    Column("peer_id", String(40), index=True, comment="the hub that delivers to the agent; null: none"),
    Column("fence", BigInteger, nullable=False, comment="one more with each hub; who has an older one writes nothing"),
    Column("key_hash", String(64), nullable=False, comment="of the key of the agent's last registration"),
)

hub_changes = Table(
    "hub_changes",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("at", BigInteger, nullable=False, comment="by the clock of the database, epoch milliseconds"),
    Column("peer_id", String(40), nullable=False, comment="the hub that has written"),
    Column("kind", String(10), nullable=False, comment="session, agent, lease or fired"),
    Column("subject", String(40), nullable=False, comment="id of the session or agent"),
    Column("number", BigInteger, nullable=False, comment="the session's last sequence, or the fence of the lease"),
    Column("detail", Text, nullable=False, comment="who has the lease, or the violated expectation"),
)
