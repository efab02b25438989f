"""The database as an outsider reads it: one consistent look, over a read-only connection."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from agent_runtime.sessions import text_of

from .model import Orders, orders_in

Row = sqlite3.Row
_ORPHANS = """
  SELECT p.tool_call_id, p.tool_state, t.client_id, t.task_id FROM chat_parts p
  JOIN turns t ON t.reply_id = p.message_id
  WHERE t.state = 'ended' AND p.tool_state IN ('input-streaming', 'input-available', 'approval-responded')
"""
_GROWING = """
  SELECT p.id, t.client_id, t.task_id FROM chat_parts p JOIN turns t ON t.reply_id = p.message_id
  WHERE t.state = 'ended' AND json_extract(p.data_json, '$.state') = 'streaming'
"""
_SAID = """
  SELECT t.message_id, p.data_json FROM turns t JOIN chat_parts p ON p.message_id = t.message_id
  WHERE p."index" = 0
"""
_REPLIES = """
  SELECT t.message_id, p.data_json FROM turns t JOIN chat_parts p ON p.message_id = t.reply_id
  ORDER BY t.message_id, p."index"
"""


@dataclass(frozen=True)
class Record:
    """Everything the checks look at, read in one transaction."""

    integrity: list[str]
    foreign: list[tuple[Any, ...]]
    turns: list[Row]
    tasks: list[Row]
    users: list[Row]
    """All rows with the role of a user, in the order of their conversation."""
    orphans: list[Row]
    growing: list[Row]
    said: dict[str, str]
    """Text of each user message that has a turn."""
    replies: dict[str, list[dict[str, Any]]]
    """Parts of the reply to it."""
    sessions: dict[str, Row]
    aliases: dict[str, str]

    @cached_property
    def orders(self) -> dict[str, Orders]:
        """What each turn was told to do, by its user message."""
        found = {message: orders_in(text) for message, text in self.said.items()}
        return {message: orders for message, orders in found.items() if orders is not None}

    @cached_property
    def by_owner(self) -> dict[str, list[Row]]:
        """The turns that carry somebody's orders: one each, or something was done twice."""
        found: dict[str, list[Row]] = {}
        for turn in self.turns:
            if (orders := self.orders.get(turn["message_id"])) is not None:
                found.setdefault(orders.owner, []).append(turn)
        return found

    def text(self, owner: str) -> str:
        """All that was said in answer to these orders."""
        parts = self._parts(owner)
        return "".join(part["text"] for part in parts if part["type"] == "text")

    def answer(self, owner: str) -> str:
        """The answer proper: what the last step said."""
        return text_of(self._parts(owner))

    def calls(self, owner: str) -> list[str]:
        """The ids of the tool calls in that reply."""
        return [part["toolCallId"] for part in self._parts(owner) if "toolCallId" in part]

    def _parts(self, owner: str) -> list[dict[str, Any]]:
        return self.replies.get(self.by_owner[owner][0]["message_id"], [])

    @property
    def unfinished(self) -> list[Row]:
        return [turn for turn in self.turns if turn["state"] != "ended"]


def read(database: Path) -> Record:
    """One look, whether or not a server runs."""
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True, timeout=10)) as connection:
        connection.row_factory = sqlite3.Row
        connection.execute("BEGIN")
        select = connection.execute
        replies: dict[str, list[dict[str, Any]]] = {}
        for row in select(_REPLIES):
            replies.setdefault(row[0], []).append(json.loads(row[1]))
        return Record(
            integrity=[row[0] for row in select("PRAGMA integrity_check")],
            foreign=[tuple(row) for row in select("PRAGMA foreign_key_check")],
            turns=select("SELECT * FROM turns ORDER BY seq").fetchall(),
            tasks=select("SELECT * FROM tasks").fetchall(),
            users=select("SELECT * FROM chat_messages WHERE role = 'user' ORDER BY created_at, id").fetchall(),
            orphans=select(_ORPHANS).fetchall(),
            growing=select(_GROWING).fetchall(),
            said={row[0]: json.loads(row[1]).get("text", "") for row in select(_SAID)},
            replies=replies,
            sessions={row["id"]: row for row in select("SELECT * FROM chat_sessions")},
            aliases={
                row["alias"]: row["session_id"] for row in select("SELECT alias, session_id FROM session_aliases")
            },
        )


def effects(file: Path) -> list[str]:
    """The lines that tools have left."""
    return file.read_text("utf-8").splitlines() if file.exists() else []
