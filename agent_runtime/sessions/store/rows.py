"""The SQL that writes sessions: each function is a unit of work or a part of one, on the given connection."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import from_json, to_json  # noqa: TID251  our own rows

from agent_common.protocol import Rule, Usage

from ...errors import BrokenRecord
from .streaming_text import UPSERT_PART
from .titles import give_title

Row = sqlite3.Row
OUTSIDE_TEXT = "outside_text"
"""Key of a session's metadata: it holds text of others."""
COPIED_BYTES = "copied_bytes"
"""Key of a session's metadata: how much it had when it was forked or imported."""


@dataclass(frozen=True, slots=True)
class NewSession:
    """A session to be stored, with its permanent prompt."""

    id: str
    principal: str
    agent: str
    workspace: str
    model: str
    prompt: str
    digest: str
    tools: Sequence[str]
    """Order in which the model sees the tools."""
    aliases: tuple[str, ...] = ()
    parent: tuple[str, str] | None = None
    """For a subagent's session: the id of the calling session and of its user message."""
    packages: Mapping[str, str] = field(default_factory=dict[str, str])
    """The skill packages that the prompt lists: name -> where it was found."""


@dataclass(frozen=True, slots=True)
class NewTurn:
    """A user message to be admitted."""

    message_id: str
    session_id: str
    reply_id: str
    parts: tuple[tuple[str, dict[str, Any]], ...]
    """Pairs of part id and the part's JSON."""
    fingerprint: str
    queued: bool
    client_id: str | None = None
    task_id: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    may_give_title: bool = True
    """False: the session is known to have a user message with text."""


@dataclass(frozen=True, slots=True)
class MessageRow:
    """The columns of a message."""

    id: str
    session_id: str
    role: str
    metadata: dict[str, Any]
    created_at: int
    updated_at: int


@dataclass(frozen=True, slots=True)
class PartRow:
    """The columns of a part; type, call id and state are read from its JSON."""

    id: str
    message_id: str
    session_id: str
    index: int
    data: dict[str, Any]
    now: int

    def columns(self) -> dict[str, Any]:
        call_id = self.data.get("toolCallId")
        return {
            "id": self.id,
            "message_id": self.message_id,
            "session_id": self.session_id,
            "index": self.index,
            "type": self.data["type"],
            "data_json": dump(self.data),
            "tool_call_id": call_id,
            "tool_state": self.data["state"] if call_id else None,
            "now": self.now,
        }


def insert_session(connection: sqlite3.Connection, session: NewSession, now: int) -> None:
    """Store a session, unless a concurrent first message has stored it already."""
    metadata: dict[str, Any] = {
        "principal": session.principal,
        "system_prompt_digest": session.digest,
        "tools": list(session.tools),
        "schema_version": 1,
    }
    if session.packages:
        metadata["packages"] = dict(session.packages)
    if session.parent is not None:
        metadata["called_by"] = session.parent[0]
    connection.execute("INSERT OR IGNORE INTO system_prompts VALUES (?, ?)", (session.digest, session.prompt))
    connection.execute(
        "INSERT OR IGNORE INTO chat_sessions"
        " (id, agent, workspace_root, model_json, parent_id, parent_message_id, metadata_json, created_at, updated_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(session.id, session.agent, session.workspace, model_json(session.model)),
            *(session.parent or (None, None)),
            *(dump(metadata), now, now),
        ),
    )
    for alias in session.aliases:
        connection.execute(
            "INSERT OR REPLACE INTO session_aliases VALUES (?, ?, ?)", (session.principal, alias, session.id)
        )


def insert_turn(connection: sqlite3.Connection, turn: NewTurn, now: int) -> None:
    """Store the user message with its parts and its ledger row, in one unit."""
    metadata = {**turn.metadata, "schema_version": 1}
    if turn.queued:
        metadata |= {"queued_at": now, "queue_enqueued_at": now}
    if turn.may_give_title:
        give_title(connection, turn.session_id, (data for _, data in turn.parts))
    upsert_message(connection, MessageRow(turn.message_id, turn.session_id, "user", metadata, now, now))
    for index, (part_id, data) in enumerate(turn.parts):
        upsert_part(connection, PartRow(part_id, turn.message_id, turn.session_id, index, data, now))
    connection.execute(
        "INSERT INTO turns (message_id, session_id, reply_id, client_id, fingerprint, task_id, state, created_at,"
        " updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(turn.message_id, turn.session_id, turn.reply_id, turn.client_id, turn.fingerprint, turn.task_id),
            *("queued" if turn.queued else "running", now, now),
        ),
    )


def upsert_message(connection: sqlite3.Connection, row: MessageRow) -> None:
    connection.execute(
        "INSERT INTO chat_messages VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET"
        " metadata_json = CASE WHEN json_extract(metadata_json, '$.hidden_at') IS NULL THEN excluded.metadata_json"
        " ELSE json_set(excluded.metadata_json, '$.hidden_at', json_extract(metadata_json, '$.hidden_at')) END,"
        " updated_at = excluded.updated_at",
        (row.id, row.session_id, row.role, dump(row.metadata), row.created_at, row.updated_at),
    )


def upsert_part(connection: sqlite3.Connection, row: PartRow) -> None:
    connection.execute(UPSERT_PART, row.columns())


def start_turn(connection: sqlite3.Connection, message_id: str, now: int) -> None:
    """Mark a turn as running; its message leaves the queue and moves to the end of the conversation."""
    connection.execute("UPDATE turns SET state = 'running', updated_at = ? WHERE message_id = ?", (now, message_id))
    connection.execute(
        "UPDATE chat_messages SET metadata_json = json_remove(metadata_json, '$.queued_at'),"
        " created_at = ?, updated_at = ? WHERE id = ?",
        (now, now, message_id),
    )


def resume_turn(connection: sqlite3.Connection, message_id: str, now: int) -> None:
    """Mark a turn that waited or was interrupted as running again."""
    connection.execute("UPDATE turns SET state = 'running', updated_at = ? WHERE message_id = ?", (now, message_id))
    leave_queue(connection, message_id)


def leave_queue(connection: sqlite3.Connection, message_id: str) -> None:
    """Remove the queue mark from a message, if it has one."""
    connection.execute(
        "UPDATE chat_messages SET metadata_json = json_remove(metadata_json, '$.queued_at')"
        " WHERE id = ? AND json_extract(metadata_json, '$.queued_at') IS NOT NULL",
        (message_id,),
    )


def add_metadata(connection: sqlite3.Connection, message_id: str, key: str, value: Any) -> None:
    """Add one key to a message's metadata."""
    connection.execute(
        "UPDATE chat_messages SET metadata_json = json_set(metadata_json, ?, json(?)) WHERE id = ?",
        (f"$.{key}", dump(value), message_id),
    )


def suspend_turn(connection: sqlite3.Connection, message_id: str, now: int) -> None:
    """Mark a turn as waiting for a person."""
    connection.execute("UPDATE turns SET state = 'waiting', updated_at = ? WHERE message_id = ?", (now, message_id))


def record_process_end(connection: sqlite3.Connection, message_id: str, done: int, lives: int, now: int) -> None:
    """Record the end of a process: the turn's progress `done`, and the number of processes in a row without any."""
    connection.execute(
        "UPDATE turns SET done = ?, lives = ?, updated_at = ? WHERE message_id = ?", (done, lives, now, message_id)
    )


def save_answer(
    connection: sqlite3.Connection, message_id: str, call_id: str, changes: dict[str, Any], now: int
) -> None:
    """Apply a person's answer to the part of a tool call."""
    row = connection.execute(
        "SELECT rowid, data_json FROM chat_parts WHERE message_id = ? AND tool_call_id = ?", (message_id, call_id)
    ).fetchone()
    data = {**load(row["data_json"]), **changes}
    connection.execute(
        "UPDATE chat_parts SET data_json = ?, tool_state = ?, updated_at = ? WHERE rowid = ?",
        (dump(data), data["state"], now, row["rowid"]),
    )


def steer_turn(
    connection: sqlite3.Connection, message_id: str, into: tuple[str, str], outcome: dict[str, Any], now: int
) -> None:
    """Let a queued message join a running turn instead of having its own. `into` is that turn's message id and reply
    id."""
    connection.execute("UPDATE turns SET reply_id = ? WHERE message_id = ?", (into[1], message_id))
    end_turn(connection, message_id, {**outcome, "into": into[0]}, now)
    connection.execute(
        "UPDATE chat_messages SET metadata_json ="
        " json_set(json_remove(metadata_json, '$.queued_at'), '$.steered_at', ?), created_at = ?, updated_at = ?"
        " WHERE id = ?",
        (now, now, now, message_id),
    )


def set_permissions(connection: sqlite3.Connection, session_id: str, rules: Sequence[Rule], now: int) -> bool:
    """Replace the rules of a session. Returns False if there is no such session."""
    kept = dump([rule.model_dump(exclude_none=True) for rule in rules])
    done = connection.execute(
        "UPDATE chat_sessions SET permissions_json = ?, updated_at = ? WHERE id = ?", (kept, now, session_id)
    )
    return bool(done.rowcount)


def end_turn(connection: sqlite3.Connection, message_id: str, outcome: dict[str, Any], now: int) -> None:
    connection.execute(
        "UPDATE turns SET state = 'ended', outcome_json = ?, updated_at = ? WHERE message_id = ?",
        (dump(outcome), now, message_id),
    )


def cancel_queued(connection: sqlite3.Connection, message_id: str, now: int) -> None:
    """Keep a cancelled message as a hidden row, so that a retry of it is recognized."""
    connection.execute(
        "UPDATE chat_messages SET metadata_json = json_set(json_remove(metadata_json, '$.queued_at'),"
        " '$.queue_canceled_at', ?, '$.hidden_at', ?), updated_at = ? WHERE id = ?",
        (now, now, now, message_id),
    )


def add_usage(connection: sqlite3.Connection, session_id: str, usage: Usage, now: int) -> None:
    connection.execute(
        "UPDATE chat_sessions SET prompt_tokens = prompt_tokens + ?, completion_tokens = completion_tokens + ?,"
        " reasoning_tokens = reasoning_tokens + ?, cache_read = cache_read + ?, cache_write = cache_write + ?,"
        " total_tokens = total_tokens + ?, cost_usd = cost_usd + ?, updated_at = ? WHERE id = ?",
        (
            *(usage.input, usage.output, usage.reasoning, usage.cache_read, usage.cache_write, usage.total),
            *(usage.cost_usd or 0.0, now, session_id),
        ),
    )


def set_model(connection: sqlite3.Connection, session_id: str, model: str, now: int) -> None:
    connection.execute(
        "UPDATE chat_sessions SET model_json = ?, updated_at = ? WHERE id = ?", (model_json(model), now, session_id)
    )


def mark_outside_text(connection: sqlite3.Connection, session_id: str) -> None:
    """Record that a session holds text of others, whatever becomes of the message that brought it."""
    connection.execute(
        f"UPDATE chat_sessions SET metadata_json = json_set(metadata_json, '$.{OUTSIDE_TEXT}', json('true'))"  # noqa: S608  a constant
        f" WHERE id = ? AND json_extract(metadata_json, '$.{OUTSIDE_TEXT}') IS NULL",
        (session_id,),
    )


def archive(connection: sqlite3.Connection, session_id: str, now: int, *, succeeded: bool = False) -> None:
    """Archive a session: from now on it is found by its id only. With `succeeded`, its messages can still be looked up
    from its successor, unless it was archived before."""
    connection.execute("DELETE FROM session_aliases WHERE session_id = ?", (session_id,))
    if succeeded:
        connection.execute(
            "UPDATE chat_sessions SET metadata_json = json_set(metadata_json, '$.succeeded_at', ?)"
            " WHERE id = ? AND archived_at IS NULL",
            (now, session_id),
        )
    else:
        disable_lookup(connection, session_id)
    connection.execute("UPDATE chat_sessions SET archived_at = ?, updated_at = ? WHERE id = ?", (now, now, session_id))


def disable_lookup(connection: sqlite3.Connection, session_id: str) -> None:
    """End the lookup of an archived session's messages."""
    connection.execute(
        "UPDATE chat_sessions SET metadata_json = json_remove(metadata_json, '$.succeeded_at')"
        " WHERE id = ? AND json_extract(metadata_json, '$.succeeded_at') IS NOT NULL",
        (session_id,),
    )


def model_json(model: str) -> str:
    return dump({"provider_id": "mesh", "model_id": model})


def dump(value: Any) -> str:
    """Return compact JSON."""
    return to_json(value).decode()


def load(text: str) -> Any:
    """Parse JSON from `dump`, SQLite or an import. Raises BrokenRecord."""
    try:
        return from_json(text)  # five times as fast as json on the text of a message
    except ValueError:
        try:
            text.encode()  # bytes that were no UTF-8 are surrogates now, which json takes
            return json.loads(text)  # noqa: TID251  reads deeper nesting than from_json does
        except (ValueError, RecursionError) as error:
            raise BrokenRecord(f"a row of the database is no JSON: {error}") from error
