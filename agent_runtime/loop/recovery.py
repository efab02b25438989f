"""The first thing a new life does: settle what the last one left running, queue again what it left queued."""

from __future__ import annotations

import sqlite3

from pydantic import ValidationError

from ..errors import NotFound
from ..sessions import TurnRow, history, interrupt
from ..telemetry import logger
from . import tasks
from .hallway import Hallway
from .limits import Books, Limits, Outcome
from .state import Turn
from .tasks import Tasks

log = logger(__name__)


async def recover(hall: Hallway, assigned: Tasks, limits: Limits) -> None:
    """Brings the ledger of turns back in step with the truth: nothing of an earlier life is running now."""
    left = await hall.database.read(history.unfinished)
    running = [turn for turn in left if turn.state == "running"]
    if running:
        now = hall.clock.now_ms()
        await hall.database.write(lambda connection: _interrupt(connection, running, now), durable=True)
    lost: list[TurnRow] = []
    for row in (turn for turn in left if turn.state == "queued"):
        turn = await _restore(row, hall, assigned, limits)
        if turn is None:
            lost.append(row)
        else:
            hall.admission.readmit(turn)
    if lost:
        now = hall.clock.now_ms()
        await hall.database.write(lambda connection: _interrupt(connection, lost, now), durable=True)
    if left:
        log.info("recovered", interrupted=len(running), queued=len(left) - len(running) - len(lost), lost=len(lost))


def _interrupt(connection: sqlite3.Connection, turns: list[TurnRow], now: int) -> None:
    for turn in turns:
        fields = interrupt(connection, turn, now)
        if turn.task_id is not None:
            principal = tasks.principal_of(connection, turn.message_id)
            if principal is not None:
                tasks.interrupted(connection, principal, turn, Outcome(**fields), now)


async def _restore(row: TurnRow, hall: Hallway, assigned: Tasks, limits: Limits) -> Turn | None:
    """The turn as it was queued; none when its rows cannot be read any more."""
    session = await hall.database.read(lambda connection: history.session(connection, row.session_id))
    message = await hall.database.read(lambda connection: history.message(connection, row.message_id))
    if session is None or message is None:
        return None
    try:
        conversation = await hall.conversations.find(session.principal, session.id)
    except NotFound:
        return None
    turn = Turn(
        conversation=conversation,
        message_id=row.message_id,
        reply_id=row.reply_id,
        parts=message.parts,
        books=Books(limits),
        model=message.metadata.get("model", {}).get("model_id", conversation.model),
        session_name=message.metadata.get("session_name", conversation.id),
        message_name=row.client_id or row.message_id,
        task_id=row.task_id,
        interactive=row.task_id is None,
    )
    if row.task_id is not None:
        try:
            task = await hall.database.read(lambda connection: tasks.assignment_of(connection, row.message_id))
        except ValidationError as error:
            log.error("a queued task cannot be read", task_id=row.task_id, error=str(error))
            return None
        if task is not None:
            assigned.restore(row, task[1], task[0], turn)
    return turn
