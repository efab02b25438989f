"""Read the record: sessions, messages with their parts, and the ledger of turns."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from agent_common.protocol import Rule, Usage, is_object

from ...ports import HUB_PRINCIPAL
from . import agent_prompts
from .agent_prompts import AgentPrompt
from .rows import OUTSIDE_TEXT, dump, load


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A stored session."""

    id: str
    principal: str
    agent: str
    model: str
    prompt: str
    digest: str
    tools: tuple[str, ...]
    archived: bool
    rules: tuple[Rule, ...]
    """Rules of scope `session`."""
    last_ms: int
    """Time of its latest message in epoch milliseconds."""
    agent_prompts: dict[str, AgentPrompt] = field(default_factory=dict[str, AgentPrompt])
    """Prompts of agents other than the session's own."""
    packages: dict[str, str] = field(default_factory=dict[str, str])
    """The skill packages that the prompt lists."""
    is_subagent: bool = False
    """Whether it is a subagent's session."""
    has_outside_text: bool = False
    """Whether a call of it has read text of the web, of an MCP server, of a skill, or of whatever a command has reached
    over the network, or has called an agent, who may have."""
    is_imported: bool = False
    """Whether its prompts came with an import."""


@dataclass(frozen=True, slots=True)
class Message:
    """A stored message with its parts in order."""

    id: str
    role: str
    metadata: dict[str, Any]
    parts: list[dict[str, Any]]
    created_at: int

    @property
    def shown(self) -> bool:
        """Whether it belongs to the conversation: neither hidden nor queued."""
        return "hidden_at" not in self.metadata and "queued_at" not in self.metadata

    @property
    def sent_at(self) -> int:
        """When it arrived. A queued message moves to the end of the conversation when its turn starts."""
        queued: Any = self.metadata.get("queue_enqueued_at")
        return queued if type(queued) is int else self.created_at

    @property
    def steered(self) -> bool:
        """Whether it joined a running turn, so that the reply of that turn contains its text too."""
        return "steered_at" in self.metadata


@dataclass(frozen=True, slots=True)
class TurnRow:
    """A turn in the ledger."""

    message_id: str
    session_id: str
    reply_id: str
    client_id: str | None
    fingerprint: str
    task_id: str | None
    state: str
    done: int
    """Model calls and tool calls that were complete when a process last ended."""
    lives: int
    """Number of processes in a row that ended without completing one."""
    outcome: dict[str, Any] | None
    created_at: int
    updated_at: int
    caller: dict[str, Any] | None = None
    """The calling turn of a subagent; None for other turns."""


def session(connection: sqlite3.Connection, session_id: str) -> SessionRow | None:
    row = connection.execute(
        "SELECT s.*, p.body, (SELECT max(created_at) FROM chat_messages m WHERE m.session_id = s.id) AS last_ms,"
        " EXISTS (SELECT 1 FROM chat_parts o WHERE o.session_id = s.id"
        " AND (o.type IN ('dynamic-tool', 'tool-web_fetch', 'tool-web_search', 'tool-task', 'tool-spawn_agent')"
        " OR (o.type = 'tool-bash' AND o.data_json LIKE '%\"egress_bytes\":%')"
        " OR (o.type = 'tool-tool_search' AND o.data_json LIKE '%\"outside_text\":%'))) AS outside"
        " FROM chat_sessions s LEFT JOIN system_prompts p"
        " ON p.digest = json_extract(s.metadata_json, '$.system_prompt_digest') WHERE s.id = ?"
        " AND NOT EXISTS (SELECT 1 FROM session_retention r WHERE r.session_id = s.id AND r.marked_at IS NOT NULL)",
        (session_id,),
    ).fetchone()
    if row is None:
        return None
    metadata: dict[str, Any] = load(row["metadata_json"])
    return SessionRow(
        id=row["id"],
        principal=metadata["principal"],
        agent=row["agent"],
        model=load(row["model_json"])["model_id"],
        prompt=row["body"] or "",
        digest=metadata["system_prompt_digest"],
        tools=tuple(metadata["tools"]),
        archived=row["archived_at"] is not None,
        rules=tuple(_rule(rule) for rule in load(row["permissions_json"])),
        last_ms=row["last_ms"] or 0,
        agent_prompts=agent_prompts.load(connection, metadata),
        packages=agent_prompts.packages_of(metadata),
        is_subagent="called_by" in metadata,
        has_outside_text=row["outside"] == 1
        or agent_prompts.IMPORTED in metadata
        or OUTSIDE_TEXT in metadata
        or metadata["principal"] == HUB_PRINCIPAL,
        is_imported=agent_prompts.IMPORTED in metadata,
    )


def session_of_alias(connection: sqlite3.Connection, principal: str, name: str) -> str | None:
    row = connection.execute(
        "SELECT session_id FROM session_aliases WHERE principal = ? AND alias = ?", (principal, name)
    ).fetchone()
    return row[0] if row else None


def messages(connection: sqlite3.Connection, session_id: str, first: str | None = None) -> Iterator[Message]:
    """Yield the messages of the session, oldest first, starting at `first` if given."""
    since = _position(connection, session_id, first) if first is not None else (0, "")
    parts: dict[str, list[dict[str, Any]]] = {}
    for row in connection.execute(_PARTS, (session_id, *since)):
        parts.setdefault(row["message_id"], []).append(load(row["data_json"]))
    for row in connection.execute(_MESSAGES, (session_id, *since)):
        yield _message(row, parts.get(row["id"], []))


_MESSAGES = "SELECT * FROM chat_messages WHERE session_id = ? AND (created_at, id) >= (?, ?) ORDER BY created_at, id"
_PARTS = """
SELECT p.message_id, p.data_json FROM chat_messages m JOIN chat_parts p ON p.message_id = m.id
WHERE m.session_id = ? AND (m.created_at, m.id) >= (?, ?) ORDER BY p.message_id, p."index"
"""


def _position(connection: sqlite3.Connection, session_id: str, message_id: str) -> tuple[int, str]:
    row = connection.execute(
        "SELECT created_at, id FROM chat_messages WHERE id = ? AND session_id = ?", (message_id, session_id)
    ).fetchone()
    return (row[0], row[1]) if row is not None else (0, "")


def last_shown_position(connection: sqlite3.Connection, session_id: str) -> tuple[int, str]:
    """Return the position of the session's latest shown message."""
    row = connection.execute(f"{_SHOWN} ORDER BY created_at DESC, id DESC LIMIT 1", (session_id, 0, "")).fetchone()
    return (row["created_at"], row["id"]) if row is not None else (0, "")


def first_shown_after(connection: sqlite3.Connection, session_id: str, position: tuple[int, str]) -> str | None:
    """Return the id of the first shown message after a position; None if there is none."""
    row = connection.execute(f"{_SHOWN} ORDER BY created_at, id LIMIT 1", (session_id, *position)).fetchone()
    return row["id"] if row is not None else None


_SHOWN = """
SELECT id, created_at FROM chat_messages WHERE session_id = ? AND (created_at, id) > (?, ?)
  AND json_extract(metadata_json, '$.hidden_at') IS NULL AND json_extract(metadata_json, '$.queued_at') IS NULL
"""


def message(connection: sqlite3.Connection, message_id: str) -> Message | None:
    row = connection.execute("SELECT * FROM chat_messages WHERE id = ?", (message_id,)).fetchone()
    if row is None:
        return None
    parts = connection.execute('SELECT data_json FROM chat_parts WHERE message_id = ? ORDER BY "index"', (message_id,))
    return _message(row, [load(part[0]) for part in parts])


def has_call(connection: sqlite3.Connection, session_id: str, call_id: str) -> bool:
    """Return whether a message of the session has a tool call of that id."""
    query = "SELECT EXISTS(SELECT 1 FROM chat_parts WHERE tool_call_id = ? AND session_id = ?)"
    return bool(connection.execute(query, (call_id, session_id)).fetchone()[0])


def approval_codes(connection: sqlite3.Connection, session_id: str) -> set[str]:
    """Return the codes of all approvals that the session has ever asked for, also of hidden messages."""
    query = "SELECT data_json FROM chat_parts WHERE session_id = ? AND type = 'data-approval'"
    found = (load(row[0]).get("data") for row in connection.execute(query, (session_id,)))
    return {str(data["code"]) for data in found if is_object(data) and "code" in data}


def part_ids(connection: sqlite3.Connection, message_id: str) -> list[str]:
    """Return the ids of a message's parts, in order."""
    return [
        row[0]
        for row in connection.execute('SELECT id FROM chat_parts WHERE message_id = ? ORDER BY "index"', (message_id,))
    ]


def last_part_created_at(connection: sqlite3.Connection, message_id: str) -> int | None:
    """Return when the last part of a message was begun, the only trace of how long an interrupted turn ran."""
    row = connection.execute("SELECT max(created_at) FROM chat_parts WHERE message_id = ?", (message_id,)).fetchone()
    return row[0]


def turn(connection: sqlite3.Connection, message_id: str) -> TurnRow | None:
    row = connection.execute("SELECT * FROM turns WHERE message_id = ?", (message_id,)).fetchone()
    return _turn(row) if row else None


def unfinished(connection: sqlite3.Connection) -> list[TurnRow]:
    """Return the turns that were queued, running or waiting when the last process ended, in order of admission."""
    found = connection.execute(
        "SELECT turns.*, EXISTS (SELECT 1 FROM chat_messages m WHERE m.id = reply_id) AS replied,"
        " (SELECT json_extract(metadata_json, '$.subagent') FROM chat_messages m WHERE m.id = message_id) AS caller"
        " FROM turns WHERE state != 'ended' ORDER BY seq"
    )
    return [_recovered_turn(row) for row in found]


def paused_sessions(connection: sqlite3.Connection, error_statuses: Collection[str]) -> set[str]:
    """Return the sessions whose queue pauses: a turn has failed since their last message was admitted. One that the end
    of its process has interrupted pauses nothing."""
    return {row[0] for row in connection.execute(_PAUSED, (dump([*error_statuses]),))}


_PAUSED = """
SELECT session_id FROM turns WHERE session_id IN (SELECT session_id FROM turns WHERE state != 'ended')
GROUP BY session_id
HAVING max(created_at) <= max(CASE
    WHEN json_valid(outcome_json) AND json_extract(outcome_json, '$.status') IN (SELECT value FROM json_each(?))
      AND json_extract(outcome_json, '$.error_code') IS NOT 'interrupted' THEN updated_at ELSE -1 END)
"""


def subagent_usage(connection: sqlite3.Connection, session_id: str, message_id: str) -> Usage:
    """Return the usage of all subagents with own sessions that a turn called, directly or through others."""
    row = connection.execute(_CALLED, {"session": session_id, "message": message_id}).fetchone()
    return Usage(**dict(row))


_CALLED = """
WITH RECURSIVE called(id) AS (
  SELECT id FROM chat_sessions WHERE parent_id = :session AND parent_message_id = :message
    AND json_extract(metadata_json, '$.called_by') IS NOT NULL
  UNION
  SELECT s.id FROM chat_sessions s JOIN called ON s.parent_id = called.id
    WHERE json_extract(s.metadata_json, '$.called_by') IS NOT NULL
)
SELECT coalesce(sum(prompt_tokens), 0) AS input, coalesce(sum(completion_tokens), 0) AS output,
  coalesce(sum(reasoning_tokens), 0) AS reasoning, coalesce(sum(cache_read), 0) AS cache_read,
  coalesce(sum(cache_write), 0) AS cache_write, coalesce(sum(cost_usd), 0.0) AS cost_usd
FROM chat_sessions JOIN called USING (id)
"""


def _message(row: sqlite3.Row, parts: list[dict[str, Any]]) -> Message:
    return Message(row["id"], row["role"], load(row["metadata_json"]), parts, row["created_at"])


def _recovered_turn(row: sqlite3.Row) -> TurnRow:
    """Return a turn from its row. A queued turn with a reply counts as running: only its start was not recorded."""
    begun = row["state"] == "queued" and row["replied"]
    caller = load(row["caller"]) if row["caller"] else None
    return replace(_turn(row), state="running" if begun else row["state"], caller=caller)


def _rule(kept: dict[str, Any]) -> Rule:
    """Read a stored rule of any version. An unreadable one becomes a deny of everything, as it may have been a deny."""
    try:
        return Rule.model_validate({**kept, "source": "session"})
    except ValidationError:
        return Rule(permission="*", action="deny")


def _turn(row: sqlite3.Row) -> TurnRow:
    outcome = load(row["outcome_json"]) if row["outcome_json"] else None
    return TurnRow(
        message_id=row["message_id"],
        session_id=row["session_id"],
        reply_id=row["reply_id"],
        client_id=row["client_id"],
        fingerprint=row["fingerprint"],
        task_id=row["task_id"],
        state=row["state"],
        done=row["done"],
        lives=row["lives"],
        outcome=outcome,
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )
