"""Close the records that a crash left open (docs/explanation/design.md#a-crash-costs-at-most-one-step)."""

from __future__ import annotations

import sqlite3
from typing import Any

from ..store import history, rows
from ..store.ids import Ids
from .parts import OLD_STEP_COUNT, RETRY, STEP_COUNT, tool_name

ORPHANED = ("input-streaming", "input-available", "approval-responded")
"""Tool states that only a running process can leave behind. Calls that wait for a person are kept."""
CALL_ERROR = "outcome unknown, interrupted: the runtime stopped while this call was running"
BROKEN_CALL = "the runtime stopped while the model was asked"
TURN_ERROR = "the runtime stopped before this turn was finished"
INTERRUPTED = {"status": "failed", "error_code": "interrupted", "error": TURN_ERROR, "finish_reason": "error"}


def interrupt_turn(
    connection: sqlite3.Connection, turn: history.TurnRow, now: int, outcome: dict[str, Any] = INTERRUPTED
) -> dict[str, Any]:
    """End a turn that was running and return its outcome. Its open calls become errors; open texts are closed."""
    _close(connection, turn.reply_id, first_broken=0, now=now)
    reply = history.message(connection, turn.reply_id)
    metadata = {**(reply.metadata if reply else {}), "outcome": outcome, "finish_reason": "error"}
    asked = history.message(connection, turn.message_id)
    at = max(now, asked.created_at + 1) if asked is not None else now  # the clock may have gone back since
    rows.upsert_message(connection, rows.MessageRow(turn.reply_id, turn.session_id, "assistant", metadata, at, now))
    rows.leave_queue(connection, turn.message_id)
    rows.end_turn(connection, turn.message_id, outcome, now)
    return outcome


def reopen_turn(connection: sqlite3.Connection, turn: history.TurnRow, ids: Ids, now: int) -> int:
    """Prepare the record of an interrupted turn for continuation. Returns its progress: the number of complete model
    calls and of tool calls with a result.

    Calls of a complete model call stay open for the loop to decide. An interrupted model call is closed, marked as one
    that will be repeated, and excluded from the conversation.
    """
    reply = history.message(connection, turn.reply_id)
    if reply is None:
        return 0
    asked = completed_step_count(reply)
    begun = [index for index, part in enumerate(reply.parts) if part["type"] == "step-start"]
    if len(begun) > asked:
        interrupted = reply.parts[begun[asked] + 1 :]
        _close(connection, turn.reply_id, first_broken=begun[asked], now=now)
        if interrupted and interrupted[-1]["type"] != RETRY:
            data = {"type": RETRY, "data": {"attempt": 0, "error": BROKEN_CALL}}
            part = rows.PartRow(ids.new("prt"), turn.reply_id, turn.session_id, len(reply.parts), data, now)
            rows.upsert_part(connection, part)
    return asked + sum(1 for part in reply.parts if part.get("state") == "output-available")


def completed_step_count(reply: history.Message) -> int:
    """Return the number of complete model calls of a reply."""
    steps = reply.metadata.get(STEP_COUNT, reply.metadata.get(OLD_STEP_COUNT, 0))
    return steps if isinstance(steps, int) else 0


def _close(connection: sqlite3.Connection, reply_id: str, *, first_broken: int, now: int) -> None:
    """Close open texts and calls from the part `first_broken` on."""
    found = connection.execute(
        'SELECT * FROM chat_parts WHERE message_id = ? AND "index" >= ?', (reply_id, first_broken)
    )
    for row in found.fetchall():
        data: dict[str, Any] = rows.load(row["data_json"])
        if tool_name(data) is not None and row["tool_state"] in ORPHANED:
            data |= {"state": "output-error", "errorText": CALL_ERROR, "input": data.get("input", {})}
        elif data.get("state") == "streaming":
            data["state"] = "done"
        else:
            continue
        part = rows.PartRow(row["id"], row["message_id"], row["session_id"], row["index"], data, now)
        rows.upsert_part(connection, part)
