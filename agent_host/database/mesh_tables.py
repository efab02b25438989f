"""The tables of what the agents of a team share. Each change here needs a new file under `migrations/versions`."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, String, Table, Text, UniqueConstraint, text

from .tables import metadata

KEY = String(512).with_variant(String(512, collation="C"), "postgresql")
"""A key. It is compared by its code points, as SQLite does."""
_LIVE = text("value IS NOT NULL AND expires_at IS NOT NULL")
_DELETED = text("value IS NULL")

blackboards = Table(
    "blackboards",
    metadata,
    Column("team", String(100), primary_key=True),
    Column("newest", BigInteger, nullable=False, comment="number of the latest change; each is one more than the last"),
    Column("oldest", BigInteger, nullable=False, comment="number of the oldest change that is kept"),
    Column("entries", Integer, nullable=False, comment="how many there are, without deleted ones"),
    Column("bytes", BigInteger, nullable=False, comment="of their values"),
    Column("log_bytes", BigInteger, nullable=False, comment="of the changes that are kept"),
)

blackboard_entries = Table(
    "blackboard_entries",
    metadata,
    Column("team", String(100), primary_key=True),
    Column("key", KEY, primary_key=True),
    # A deleted entry keeps its row as long as its last change is kept, so that its versions go on.
    Column("value", Text, comment="JSON; null: deleted"),
    Column("size", Integer, nullable=False, comment="bytes of the value"),
    Column("version", BigInteger, nullable=False),
    Column("change", BigInteger, nullable=False, comment="number of its last change"),
    Column("updated_at", BigInteger, nullable=False, comment="epoch milliseconds"),
    Column("updated_by", String(100), nullable=False, comment="an agent's id, or operator"),
    Column("cause", Text, nullable=False, comment="JSON: session, task, trace"),
    Column("expires_at", BigInteger, comment="epoch milliseconds; null: never"),
    Column("claim_id", String(40), comment="null: nobody has claimed it"),
    Column("claimed_by", String(100)),
    Column("claimed_until", BigInteger, comment="epoch milliseconds"),
    Index("blackboard_entries_due", "expires_at", sqlite_where=_LIVE, postgresql_where=_LIVE),
    Index("blackboard_entries_deleted", "team", "change", sqlite_where=_DELETED, postgresql_where=_DELETED),
)

blackboard_changes = Table(
    "blackboard_changes",
    metadata,
    Column("team", String(100), primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("key", KEY, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("kind", String(10), nullable=False, comment="put, delete or expire"),
    Column("value", Text, comment="JSON; null unless it is a put"),
    Column("size", Integer, nullable=False, comment="bytes that it counts for in the log"),
    Column("at", BigInteger, nullable=False, comment="epoch milliseconds"),
    Column("by", String(100), nullable=False),
    Column("cause", Text, nullable=False, comment="JSON: session, task, trace"),
    Index("blackboard_changes_by_key", "team", "key", "version"),
)

topics = Table(
    "topics",
    metadata,
    Column("team", String(100), primary_key=True),
    Column("name", KEY, primary_key=True),
    Column("newest", BigInteger, nullable=False, comment="seq of the latest message; each is one more than the last"),
    Column("oldest", BigInteger, nullable=False, comment="seq of the oldest message that is kept"),
    Column("bytes", BigInteger, nullable=False, comment="of the messages that are kept"),
)

topic_messages = Table(
    "topic_messages",
    metadata,
    Column("team", String(100), primary_key=True),
    Column("topic", KEY, primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("id", String(200), nullable=False, comment="the publisher's own, or made for it"),
    Column("data", Text, nullable=False, comment="JSON"),
    Column("size", Integer, nullable=False, comment="bytes that it counts for"),
    Column("by", String(100), nullable=False, comment="an agent's id, or operator"),
    Column("at", BigInteger, nullable=False, comment="epoch milliseconds"),
    Column("cause", Text, nullable=False, comment="JSON: session, task, trace"),
    UniqueConstraint("team", "topic", "by", "id", name="topic_messages_once"),
)

topic_subscriptions = Table(
    "topic_subscriptions",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("agent", String(100), nullable=False),
    Column("team", String(100), nullable=False),
    Column("session", String(200), nullable=False, comment="of the agent, in which its messages become turns"),
    Column("topic", KEY, nullable=False),
    Column("position", BigInteger, nullable=False, comment="seq of the last message that needs no delivery"),
    Column("handed", BigInteger, nullable=False, comment="seq of the last message that was ever delivered"),
    Column("dropped", BigInteger, nullable=False, comment="messages that were dropped since the last taken one"),
    Column("attempts", Integer, nullable=False, comment="deliveries of the next message so far"),
    Column("reason", String(500), comment="why the last delivery was refused; null: it was not"),
    Column("lease_until", BigInteger, nullable=False, comment="epoch milliseconds; 0: no delivery is under way"),
    Column("due_at", BigInteger, nullable=False, comment="epoch milliseconds; no delivery before"),
    Column("rate_until", BigInteger, nullable=False, comment="epoch milliseconds; the same for all of the session"),
    Column("created_at", BigInteger, nullable=False, comment="epoch milliseconds"),
    UniqueConstraint("agent", "session", "topic", name="topic_subscriptions_once"),
    Index("topic_subscriptions_by_topic", "team", "topic"),
)

topic_dead_letters = Table(
    "topic_dead_letters",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("subscription_id", String(40), nullable=False),
    Column("agent", String(100), nullable=False),
    Column("team", String(100), nullable=False),
    Column("session", String(200), nullable=False),
    Column("topic", KEY, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("message_id", String(200), nullable=False),
    Column("reason", String(500), nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("at", BigInteger, nullable=False, comment="epoch milliseconds"),
)

artifact_teams = Table(
    "artifact_teams",
    metadata,
    Column("team", String(100), primary_key=True),
    Column("names", Integer, nullable=False, comment="how many artifacts there are, without deleted ones"),
    Column("bytes", BigInteger, nullable=False, comment="of all versions that are kept"),
)

artifacts = Table(
    "artifacts",
    metadata,
    Column("team", String(100), primary_key=True),
    Column("name", KEY, primary_key=True),
    # A deleted artifact keeps its row for a while, so that its versions go on.
    Column("newest", BigInteger, nullable=False, comment="the last version that was given"),
    Column("current", BigInteger, comment="the newest version that is kept; null: deleted"),
    Column("deleted_at", BigInteger, comment="epoch milliseconds; null: it is there"),
    Index("artifacts_deleted", "team", "deleted_at"),
)

artifact_versions = Table(
    "artifact_versions",
    metadata,
    Column("team", String(100), primary_key=True),
    Column("name", KEY, primary_key=True),
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("file", String(40), nullable=False, unique=True, comment="its name in the folder of artifacts"),
    Column("sha256", String(64), nullable=False),
    Column("size", BigInteger, nullable=False, comment="bytes"),
    Column("media_type", String(200), nullable=False),
    Column("updated_at", BigInteger, nullable=False, comment="epoch milliseconds"),
    Column("updated_by", String(100), nullable=False, comment="an agent's id, or operator"),
    Column("cause", Text, nullable=False, comment="JSON: session, task, trace"),
)

agent_cards = Table(
    "agent_cards",
    metadata,
    Column("agent_id", String(100), primary_key=True),
    Column("card", Text, nullable=False, comment="what the agent says of itself, as JSON"),
    Column("updated_at", BigInteger, nullable=False, comment="epoch milliseconds"),
)

agent_requests = Table(
    "agent_requests",
    metadata,
    Column("request_id", String(200), primary_key=True, comment="work that one agent has given another"),
    Column("caller", String(100), nullable=False, comment="an agent's id, or operator"),
    Column("callers", Text, nullable=False, comment="JSON: who has asked whom up to this work, the first caller first"),
    Column("created_at", BigInteger, nullable=False, comment="epoch milliseconds"),
    Column("waiting", Integer, comment="how many of the last callers wait for its end; null: all"),
    Index("agent_requests_by_caller", "caller", "created_at"),
)
