"""Settles truthfully what a crash left open (spec/agent-system.md E10)."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

from . import history, rows

ORPHANED = ("input-streaming", "input-available", "approval-responded")
"""Tool states that only a living process can leave. Waits for a human are kept."""
CALL_ERROR = "outcome unknown: the runtime stopped while this call was running"
TURN_ERROR = "the runtime stopped before this turn was finished"


def interrupt(connection: sqlite3.Connection, turn: history.TurnRow, now: int) -> dict[str, Any]:
    """Ends a turn that was running: orphaned calls become errors, growing texts keep what was saved. Its outcome."""
    for row in connection.execute("SELECT * FROM chat_parts WHERE message_id = ?", (turn.reply_id,)).fetchall():
        data: dict[str, Any] = json.loads(row["data_json"])
        if row["tool_state"] in ORPHANED:
            data |= {"state": "output-error", "errorText": CALL_ERROR, "input": data.get("input", {})}
        elif data.get("state") == "streaming":
            data["state"] = "done"
        else:
            continue
        part = rows.PartRow(row["id"], row["message_id"], row["session_id"], row["index"], data, now)
        rows.upsert_part(connection, part)
    outcome = {"status": "failed", "error_code": "interrupted", "error": TURN_ERROR, "finish_reason": "error"}
    reply = history.message(connection, turn.reply_id)
    metadata = {**(reply.metadata if reply else {}), "outcome": outcome, "finish_reason": "error"}
    rows.upsert_message(connection, rows.MessageRow(turn.reply_id, turn.session_id, "assistant", metadata, now, now))
    rows.end_turn(connection, turn.message_id, outcome, now)
    return outcome
