"""The record of a subagent's call: who called it, and the report of one that worked in the background."""

from __future__ import annotations

import hashlib
import sqlite3
from dataclasses import asdict, dataclass
from typing import Any

from pydantic_core import to_json

from ...sessions import TURN_ERROR, Ids, MessageRow, history, rows, text_of
from ..core.turn_state import Turn

MAX_REPORT_CHARACTERS = 20_000
"""Maximum characters of the answer in a report; the subagent's session has all of it."""


@dataclass(frozen=True, slots=True)
class ParentCall:
    """The call of a subagent, stored with its first message."""

    session_id: str
    message_id: str
    depth: int
    background: bool

    def json(self) -> dict[str, Any]:
        return asdict(self)


def fingerprint(parts: list[dict[str, Any]]) -> str:
    return hashlib.sha256(to_json(parts)).hexdigest()


def report_to_parent(connection: sqlite3.Connection, ids: Ids, turn: Turn, now: int) -> None:
    """Report the end of a background agent in its caller's session. Runs in the transaction that ends the turn."""
    if turn.session.parent is None or turn.end.outcome is None:
        return
    ended = turn.end.outcome
    text = text_of(turn.end.reply_parts) if ended.status == "complete" else ended.error or "it was stopped"
    _insert_report(
        connection, ids, (turn.session.parent[0], turn.session.id, turn.request.agent), (ended.status, text), now
    )


def report_interrupted(connection: sqlite3.Connection, ids: Ids, row: history.TurnRow, now: int) -> None:
    """Report the end of a background agent that a crash interrupted."""
    session = history.session(connection, row.session_id)
    if session is not None and row.caller is not None and row.caller.get("background") is True:
        who = (str(row.caller.get("session_id")), row.session_id, session.agent)
        _insert_report(connection, ids, who, ("failed", TURN_ERROR), now)


def _insert_report(
    connection: sqlite3.Connection, ids: Ids, subagent: tuple[str, str, str], result: tuple[str, str], now: int
) -> None:
    session_id, child_id, agent = subagent
    status, text = result
    last = history.session(connection, session_id)
    if last is None:
        return
    at = max(now, last.last_ms + 1)
    outcome = "has finished" if status == "complete" else f"did not finish ({status})"
    report = (
        f"[Agent {agent}, called in the background as session {child_id}, {outcome}.]\n\n{text[:MAX_REPORT_CHARACTERS]}"
    )
    metadata = {"subagent": {"session_id": child_id, "agent": agent, "status": status}, "schema_version": 1}
    message_id = ids.new("msg")
    rows.upsert_message(connection, MessageRow(message_id, session_id, "assistant", metadata, at, at))
    parts = ({"type": "step-start"}, {"type": "text", "text": report, "state": "done"})
    for index, data in enumerate(parts):
        rows.upsert_part(connection, rows.PartRow(ids.new("prt"), message_id, session_id, index, data, at))
