"""Add ended turns to the daily log."""

from __future__ import annotations

from ...ports import DailyLog, DailyLogEntry
from ...sessions import text_of
from ..core.turn_state import Turn

MAX_TEXT_CHARACTERS = 2000
"""Maximum characters of a text passed to the log, which keeps fewer."""


class NoDailyLog:
    """A daily log that keeps nothing."""

    def append(self, entry: DailyLogEntry) -> None:
        return


def log_turn(turn: Turn, daily_log: DailyLog) -> None:
    """Log a turn of a person or a task. Subagents are not logged: their work shows in their caller's answer."""
    if turn.request.parent is not None or turn.end.outcome is None:
        return
    session = turn.session
    outcome = turn.end.outcome
    how = outcome.error_code or outcome.limit
    entry = DailyLogEntry(
        principal=session.principal,
        who=turn.request.task_id or next(iter(session.aliases), session.id),
        status=outcome.status if how in (None, outcome.status) else f"{outcome.status} ({how})",
        asked=text_of(turn.request.parts)[:MAX_TEXT_CHARACTERS],
        answered=text_of(turn.end.reply_parts)[:MAX_TEXT_CHARACTERS],
    )
    daily_log.append(entry)
