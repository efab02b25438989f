"""Load a view from the log, beginning at the tail of the latest compaction."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from itertools import takewhile

from ..agents import DEFAULT
from ..sessions import history, markers
from .view import View


@dataclass(frozen=True, slots=True)
class CurrentTurn:
    """A running turn, which adds its own message and reply to the view."""

    message_id: str
    reply_id: str
    exclude_later: bool = False
    """Also leave out rows after the turn's message: they arrived while the turn was paused and follow its reply."""


def read_view(
    connection: sqlite3.Connection,
    session_id: str,
    prompt: str,
    agent: str = DEFAULT,
    current: CurrentTurn | None = None,
) -> View:
    """Return the view of a session as the model sees it."""
    found = markers.latest(connection, session_id)
    marker = found.marker if found is not None else None
    first = (marker.tail_start_id or found.message_id) if found is not None and marker is not None else None
    messages = history.messages(connection, session_id, first)
    if current is not None and current.exclude_later:
        messages = takewhile(lambda message: message.id != current.message_id, messages)
    if current is not None:
        messages = (message for message in messages if message.id not in (current.message_id, current.reply_id))
    return View.from_history(prompt, messages, agent, marker)
