"""The tables. What changes here changes in a new file under `migrations/versions` too; a test holds them together."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Float, Index, Integer, MetaData, String, Table, Text

metadata = MetaData()

tokens = Table(
    "tokens",
    metadata,
    Column("digest", String(64), primary_key=True, comment="hex SHA-256 of the token"),
    Column("agent_id", String(100), nullable=False, index=True),
    Column("purpose", String(20), nullable=False, comment="manual: made on the command line; fleet: made for a driver"),
    Column("created_at", BigInteger, nullable=False, comment="epoch milliseconds"),
)

model_calls = Table(
    "model_calls",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("request_id", String(100), nullable=False),
    Column("agent_id", String(100), nullable=False),
    Column("operation", String(20), nullable=False, comment="chat or embeddings"),
    Column("model", String(200), nullable=False, comment="the name the agent used"),
    Column("provider", String(100), nullable=False),
    Column("upstream_model", String(200), nullable=False),
    Column("streamed", Boolean, nullable=False),
    Column("status", String(20), nullable=False, comment="complete, failed, dropped or client_gone"),
    Column("http_status", Integer, comment="what the provider answered; null when it did not"),
    Column("started_at", BigInteger, nullable=False, comment="epoch milliseconds"),
    Column("duration_ms", Integer, nullable=False),
    # Null: the provider said nothing about usage.
    Column("input", BigInteger),
    Column("output", BigInteger),
    Column("reasoning", BigInteger),
    Column("cache_read", BigInteger),
    Column("cache_write", BigInteger),
    Column("cost_usd", Float, comment="null: no usage, or a model without a known price"),
    Index("model_calls_by_agent", "agent_id", "id"),
)

workspaces = Table(
    "workspaces",
    metadata,
    Column("id", String(100), primary_key=True),
    Column("driver", String(50), nullable=False),
    Column("state", String(20), nullable=False),
    Column("detail", Text, comment="why it is in this state, when there is something to say"),
    Column("url", String(200), nullable=False, comment="where its runtime listens while it runs"),
    # In clear, unlike the mesh's own tokens: the driver must hand it to the runtime at every start.
    Column("token", String(100), nullable=False, comment="bearer token of the runtime's HTTP face"),
    Column("created_at", BigInteger, nullable=False, comment="epoch milliseconds"),
)
