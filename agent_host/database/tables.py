"""The tables. Each change here needs a new file under `migrations/versions`; a test compares the two."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
    text,
)

metadata = MetaData()


def _origin_columns() -> list[Column[Any]]:
    """Who made a model call, beside its agent."""
    return [
        Column("team", String(100), nullable=False, server_default="default"),
        Column("session", String(100), comment="null: the agent has not said"),
        Column("caller_session", String(100), comment="the session that called a subagent"),
        Column("subagent", String(100), comment="null: the agent itself"),
        Column("principal", String(200), comment="the user, as the agent says; may be null"),
    ]


tokens = Table(
    "tokens",
    metadata,
    Column("digest", String(64), primary_key=True, comment="hex SHA-256 of the token"),
    Column("agent_id", String(100), nullable=False, index=True),
    Column("purpose", String(20), nullable=False, comment="manual, fleet (made for a driver) or scoped (for a user)"),
    Column("created_at", BigInteger, nullable=False, comment="epoch milliseconds"),
    Column("scope", Text, comment="JSON of a scoped token: user and workspaces; null: an agent's or the operator's"),
    Column("expires_at", BigInteger, comment="epoch milliseconds; null: valid until it is revoked"),
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
    Column("status", String(20), nullable=False, comment="complete, failed, dropped, client_gone or interrupted"),
    Column("http_status", Integer, comment="the provider's status; null if it did not answer"),
    Column("started_at", BigInteger, nullable=False, comment="epoch milliseconds"),
    Column("duration_ms", Integer, nullable=False),
    # Null: the provider reported no usage.
    Column("input", BigInteger),
    Column("output", BigInteger),
    Column("reasoning", BigInteger),
    Column("cache_read", BigInteger),
    Column("cache_write", BigInteger),
    Column("cost_usd", Float, comment="null: no usage, or a model without a known price"),
    Column("estimated", Boolean, nullable=False, server_default=false(), comment="the usage is an estimate"),
    Column("asked_model", String(200), comment="the name the agent used; null: that of the model"),
    Column("fallback_reason", Text, comment="why another model was asked; may be null"),
    *_origin_columns(),
    Index("model_calls_by_agent", "agent_id", "id"),
)

budgets = Table(
    "budgets",
    metadata,
    Column("scope", String(210), primary_key=True, comment="team:NAME, agent:ID or agent:ID/SUBAGENT"),
    Column("daily_usd", Float),
    Column("monthly_usd", Float),
    Column("daily_tokens", BigInteger),
    Column("monthly_tokens", BigInteger),
    Column("created_at", BigInteger, nullable=False, comment="epoch milliseconds"),
)

budget_spending = Table(
    "budget_spending",
    metadata,
    Column("scope", String(210), primary_key=True),
    Column("period", String(10), primary_key=True, comment="a day or a month, in UTC: 2026-11-28, 2026-11"),
    Column("usd", Float, nullable=False),
    Column("tokens", BigInteger, nullable=False),
)

call_reserves = Table(
    "call_reserves",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("request_id", String(100), nullable=False),
    Column("agent_id", String(100), nullable=False),
    *_origin_columns(),
    Column("operation", String(20), nullable=False),
    Column("model", String(200), nullable=False),
    Column("provider", String(100), nullable=False),
    Column("upstream_model", String(200), nullable=False),
    Column("streamed", Boolean, nullable=False),
    Column("started_at", BigInteger, nullable=False, comment="epoch milliseconds"),
    Column("input", BigInteger, nullable=False, comment="most tokens of the request"),
    Column("output", BigInteger, nullable=False, comment="most tokens of the answer"),
    Column("cost_usd", Float, comment="of these; null: the model has no known price"),
)

workspaces = Table(
    "workspaces",
    metadata,
    Column("id", String(100), primary_key=True),
    Column("driver", String(50), nullable=False),
    Column("state", String(20), nullable=False),
    Column("detail", Text, comment="why it is in this state; may be null"),
    Column("url", String(200), nullable=False, comment="URL of its runtime while it runs"),
    # In clear text, unlike the mesh's own tokens, because the driver must pass it to the runtime at every start.
    Column("token", String(100), nullable=False, comment="bearer token of the runtime's HTTP API"),
    Column("created_at", BigInteger, nullable=False, comment="epoch milliseconds"),
    Column("team", String(100), nullable=False, server_default="default"),
    Column("settings", Text, nullable=False, server_default="{}", comment="JSON: its runtime's variables AGENT_..."),
    Column("restart_needed", Boolean, nullable=False, server_default=false(), comment="its runtime has older settings"),
    Column("desired_state", String(20), nullable=False, server_default="stopped", comment="running or stopped"),
)

channels = Table(
    "channels",
    metadata,
    Column("workspace", String(100), primary_key=True),
    Column("dialect", String(10), nullable=False, comment="strict or loose"),
    Column("auth", String(10), nullable=False, comment="hmac or none"),
    Column("listen", String(300), comment="its own address; null: the shared one"),
    # In clear text, because a MAC can only be checked with the key itself.
    Column("key", String(100), comment="the guest's key for challenges; null without auth"),
    Column("epoch", BigInteger, nullable=False, comment="the newest epoch that was issued"),
    Column("fence", String(20), comment="quarantined or halted: attachments are refused"),
    Column("fence_reason", Text),
    Column("drained", Boolean, nullable=False, comment="gets no work until it is started again"),
    Column("required", Boolean, nullable=False, server_default=false(), comment="its agent fails closed"),
    Column("result_url", Text, comment="where results of its tasks are sent; null: nowhere"),
    # In clear text, because it signs what is sent.
    Column("result_secret", String(200), comment="signs the results that are sent; null: made before there was one"),
    Column("created_at", BigInteger, nullable=False, comment="epoch milliseconds"),
)

deleted_workspaces = Table(
    "deleted_workspaces",
    metadata,
    Column("workspace", String(100), primary_key=True),
    Column("epoch", BigInteger, nullable=False, comment="the newest epoch; a new workspace of this id goes on from it"),
    Column("deleted_at", BigInteger, nullable=False, comment="epoch milliseconds"),
)

constraint_sets = Table(
    "constraint_sets",
    metadata,
    Column("workspace", String(100), primary_key=True),
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("hash", String(200), nullable=False, comment="hash of the payload's raw bytes"),
    Column("payload", LargeBinary, nullable=False),
    Column("payload_ref", Text, nullable=False),
    Column("severity", String(10), nullable=False),
    Column("effective_at", String(64), nullable=False),
    Column("status", String(20), nullable=False, comment="pending, acked, hash_mismatch, timeout or halted"),
    Column("acked_at", BigInteger),
    Column("created_at", BigInteger, nullable=False, comment="epoch milliseconds"),
)

work = Table(
    "work",
    metadata,
    Column("request_id", String(200), primary_key=True),
    Column("workspace", String(100), nullable=False),
    Column("fingerprint", String(64), nullable=False),
    Column("request", Text, nullable=False, comment="the WorkRequest as JSON"),
    Column("pinned", Boolean, nullable=False, comment="whether the caller named the version of the constraints"),
    Column("status", String(20), nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("deliveries", Integer, nullable=False, comment="how often it was sent"),
    Column("epoch", BigInteger, nullable=False, comment="epoch of the attachment that it was last sent to"),
    Column("version", BigInteger, comment="version of the constraints when it was last sent"),
    Column("not_before", BigInteger, comment="epoch milliseconds of the next attempt"),
    Column("expires_at", BigInteger, nullable=False, comment="epoch milliseconds"),
    Column("cancel_reason", Text, comment="why it is to be cancelled; null: it is not"),
    Column("error", Text, comment="why there is no result: a code, a colon and an explanation"),
    Column("result", Text, comment="the WorkResult as JSON"),
    Column("submitted_at", BigInteger, nullable=False, comment="epoch milliseconds"),
    Column("updated_at", BigInteger, nullable=False),
    Column("finished_at", BigInteger),
    Column("delivered_at", BigInteger, comment="when a caller first read its end"),
    Index(
        "work_open",
        "submitted_at",
        sqlite_where=text("finished_at IS NULL"),
        postgresql_where=text("finished_at IS NULL"),
    ),
    Index("work_finished", "finished_at"),
    Index("work_submitted", "submitted_at", "request_id"),
)

task_results = Table(
    "task_results",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("workspace", String(100), nullable=False),
    Column("task_id", String(200), nullable=False),
    Column("principal", String(200), nullable=False, comment="the user whose task it was"),
    Column("finished_at", BigInteger, nullable=False, comment="epoch milliseconds, by the agent's clock"),
    Column("recorded_at", BigInteger, nullable=False, comment="epoch milliseconds, by this host's"),
    Column("result", Text, nullable=False, comment="the TaskResult as JSON"),
    Column("truncated", Boolean, nullable=False, comment="the agent has left out its large fields"),
    Column("delivery", String(64), comment="id of its callback; null: it has none, and nothing of what follows"),
    Column("delivery_url", Text),
    Column("delivery_host", String(260)),
    Column("delivery_state", String(20), comment="pending, delivered or failed"),
    Column("delivery_attempts", Integer, nullable=False, server_default="0"),
    Column("delivery_next_at", BigInteger, comment="epoch milliseconds of the next attempt"),
    Column("delivery_error", Text, comment="why the last attempt failed"),
    Column("promotions", Text, comment="JSON: what has become of the values that it promotes; null: there are none"),
    # The same task with another time has ended again: in another life of its workspace, or after its id was forgotten.
    UniqueConstraint("task_id", "workspace", "principal", "finished_at", name="task_results_once"),
    Index("task_results_by_workspace", "workspace", "id"),
    Index(
        "task_results_pending",
        "delivery_next_at",
        sqlite_where=text("delivery_state = 'pending'"),
        postgresql_where=text("delivery_state = 'pending'"),
    ),
)

work_audit = Table(
    "work_audit",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("at", BigInteger, nullable=False, comment="epoch milliseconds"),
    Column("workspace", String(100), comment="null: unknown"),
    Column("epoch", BigInteger, nullable=False),
    Column("connection", BigInteger, nullable=False, comment="counts from the start of the host; 0: none"),
    Column("direction", String(10), nullable=False, comment="in, out, or host for what the host decides"),
    Column("type", String(50), nullable=False),
    Column("request_id", String(200)),
    Column("audit_ref", Text),
    Column("bytes", Integer, nullable=False),
    Column("hash", String(64), comment="hex SHA-256 of the line without its end"),
    Column("detail", Text),
    Column("content", Text, comment="the line, if content is kept"),
    Index("work_audit_by_request", "request_id", "id"),
    Index("work_audit_by_workspace", "workspace", "id"),
)

hub_agents = Table(
    "hub_agents",
    metadata,
    Column("agent_id", String(40), primary_key=True),
    Column("name", String(100), nullable=False, unique=True),
    Column("passport", Text, nullable=False, comment="JSON"),
    Column("resume", Text, nullable=False, comment="JSON"),
    Column("rule", Text, nullable=False, comment="JSON"),
    Column("registered_at", BigInteger, nullable=False, comment="epoch milliseconds"),
)

hub_sessions = Table(
    "hub_sessions",
    metadata,
    Column("session_id", String(40), primary_key=True),
    Column("type", String(100), nullable=False),
    Column("creator_id", String(40), nullable=False),
    Column("state", String(10), nullable=False, comment="pending, active, closed or expired, in the snapshot"),
    Column("snapshot", Text, nullable=False, comment="JSON: the session as its log makes it"),
    Column("snapshot_sequence", BigInteger, nullable=False, comment="the last envelope that is in the snapshot"),
    Column("fired", Text, nullable=False, comment="JSON: violated expectations that were acted upon"),
    Column("due_at", BigInteger, comment="when the next expectation is overdue, as of the snapshot; null: never"),
    Column("created_at", BigInteger, nullable=False, comment="epoch milliseconds"),
    Column("closed_at", BigInteger, comment="epoch milliseconds; null: it is open"),
    Index(
        "hub_sessions_open",
        "session_id",
        sqlite_where=text("closed_at IS NULL"),
        postgresql_where=text("closed_at IS NULL"),
    ),
)

hub_envelopes = Table(
    "hub_envelopes",
    metadata,
    Column("session_id", String(40), primary_key=True),
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("envelope_id", String(40), nullable=False, unique=True),
    Column("sender_id", String(40), nullable=False),
    Column("idempotency_key", String(200)),
    Column("causation_id", String(200)),
    Column("body", Text, nullable=False, comment="the envelope as JSON"),
    Index(
        "hub_envelopes_once",
        "session_id",
        "sender_id",
        "idempotency_key",
        unique=True,
        sqlite_where=text("idempotency_key IS NOT NULL"),
        postgresql_where=text("idempotency_key IS NOT NULL"),
    ),
)

hub_cursors = Table(
    "hub_cursors",
    metadata,
    Column("session_id", String(40), primary_key=True),
    Column("agent_id", String(40), primary_key=True),
    Column("acked_through", BigInteger, nullable=False, comment="all up to this sequence are done with"),
    Column("acked_above", Text, nullable=False, comment="JSON: later sequences that are done with, too"),
    Column("attempts", Integer, nullable=False, comment="how often the first one that is not was nacked"),
    Column("done", Boolean, nullable=False, comment="the session is over, and nothing is left to deliver"),
    Index(
        "hub_cursors_open",
        "agent_id",
        sqlite_where=text("NOT done"),
        postgresql_where=text("NOT done"),
    ),
)

hub_turns = Table(
    "hub_turns",
    metadata,
    Column("session_id", String(40), primary_key=True),
    Column("agent_id", String(40), primary_key=True),
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("outcome", String(10), nullable=False, comment="replied, silent or failed"),
    Column("at", BigInteger, nullable=False, comment="epoch milliseconds"),
)

hub_dead_letters = Table(
    "hub_dead_letters",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("session_id", String(40), nullable=False),
    Column("agent_id", String(40), nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("envelope_id", String(40), nullable=False),
    Column("reason", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("at", BigInteger, nullable=False, comment="epoch milliseconds"),
)

hub_audit = Table(
    "hub_audit",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("at", BigInteger, nullable=False, comment="epoch milliseconds"),
    Column("kind", String(40), nullable=False),
    Column("agent_id", String(40)),
    Column("session_id", String(40)),
    Column("detail", Text, nullable=False, comment="JSON"),
)
