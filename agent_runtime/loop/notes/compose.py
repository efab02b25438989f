"""Compose the notes below a user's message when its turn starts, and keep them with the message."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence

from agent_common.telemetry import logger

from ...context import NOTES_KEY, View, bound_notes, format_time, serialize_notes, user_text
from ...errors import StoreError
from ...ports import Clock, Note, NoteContext, NoteProvider
from ...sessions import rows
from ...store import Database
from ..core.turn_state import Turn

log = logger(__name__)
PROVIDERS_SECONDS = 1.0
"""Seconds that all providers have together, one after the other, because the turn waits for them."""
LATE_MESSAGE_MS = 60_000
"""After a longer wait than this, the current time is noted too."""


async def compose_notes(
    turn: Turn, view: View, database: Database, clock: Clock, providers: Sequence[NoteProvider]
) -> None:
    """Give the turn its notes, if it has none yet. Notes are on the disk before the model is asked, so that a restart
    shows the model the same ones again."""
    if turn.notes is None:
        turn.notes = () if turn.has_run_before else await _compose(turn, view, database, clock.now_ms(), providers)


def caller_notes(turn: Turn) -> tuple[Note, ...]:
    """Return the note that tells a subagent about its caller; empty for other turns."""
    parent = turn.request.parent
    if parent is None:
        return ()
    text = (
        f"You run as a subagent: agent {parent.request.agent} called you by its tool task, and the message above is "
        "what it asked for. Your final answer is returned to it. No person is there to answer questions."
    )
    return (Note("caller", text),)


async def _compose(
    turn: Turn, view: View, database: Database, now: int, providers: Sequence[NoteProvider]
) -> tuple[Note, ...]:
    late = [Note("now", format_time(now))] if now - turn.sent_ms > LATE_MESSAGE_MS else []
    notes = bound_notes((*late, *caller_notes(turn), *await _collect_notes(turn, view, providers)))
    if not notes:
        return ()

    def unit(connection: sqlite3.Connection) -> None:
        rows.add_metadata(connection, turn.message_id, NOTES_KEY, serialize_notes(notes))

    try:
        await database.write(unit)
    except (StoreError, sqlite3.Error) as error:
        log.warning("the notes of a turn could not be recorded", message_id=turn.message_id, error=str(error))
        return ()
    return notes


async def _collect_notes(turn: Turn, view: View, providers: Sequence[NoteProvider]) -> list[Note]:
    """Return the notes that the providers deliver in time, in the providers' order."""
    collected: list[Note] = []
    if not providers:
        return collected
    session = turn.session
    context = NoteContext(
        session_id=session.id,
        principal=session.principal,
        agent=turn.request.agent,
        model=turn.model,
        message_text=user_text(turn.request.parts),
        is_first_message=view.empty,
        context_tokens=session.context_tokens,
    )
    try:
        async with asyncio.timeout(PROVIDERS_SECONDS):
            for provider in providers:
                try:
                    collected += await provider.notes(context)
                except Exception:  # a turn continues without these notes
                    log.exception("a note provider failed", provider=type(provider).__name__)
    except TimeoutError:
        log.warning("note providers timed out", message_id=turn.message_id)
    return collected
