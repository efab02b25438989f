"""A view read back from the log: only from where the latest compaction's tail begins."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from itertools import takewhile

from ..agents import DEFAULT
from ..sessions import history, markers
from .view import View


@dataclass(frozen=True, slots=True)
class CurrentTurn:
    """A turn that is at work: its message and its reply are added by itself."""

    message_id: str
    reply_id: str
    exclude_later: bool = False
    """What lies behind its message in the log came while it waited, and stands behind its reply."""


def read_view(
    connection: sqlite3.Connection,
    session_id: str,
    prompt: str,
    agent: str = DEFAULT,
    current: CurrentTurn | None = None,
) -> View:
    """What the model sees of a session."""
    found = markers.latest(connection, session_id)
    marker = found.marker if found is not None else None
    first = (marker.tail_start_id or found.message_id) if found is not None and marker is not None else None
    messages = history.messages(connection, session_id, first)
    if current is not None and current.exclude_later:
        messages = takewhile(lambda message: message.id != current.message_id, messages)
    if current is not None:
        messages = (message for message in messages if message.id not in (current.message_id, current.reply_id))
    return View.from_history(prompt, messages, agent, marker)
