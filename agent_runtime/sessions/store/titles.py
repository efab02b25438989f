"""The title of a session that nobody has named: the beginning of what was said first in it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from typing import Any

from agent_common.line_text import escape_invisible

TITLE_LENGTH = 60
_READ = 1000
"""Characters of a text that are looked at."""
_WORDS = TITLE_LENGTH // 2 + 1
"""So many words, with a blank between them, are longer than a title."""
_GIVE_TITLE = """
UPDATE chat_sessions SET metadata_json = json_set(metadata_json, '$.title', :title)
WHERE id = :session AND json_extract(metadata_json, '$.title') IS NULL AND NOT EXISTS (
  SELECT 1 FROM chat_messages m JOIN chat_parts p ON p.message_id = m.id
  WHERE m.session_id = :session AND m.role = 'user' AND p.type = 'text')
"""


def give_title(connection: sqlite3.Connection, session_id: str, parts: Iterable[Mapping[str, Any]]) -> None:
    """Name a session by a message that is not stored yet, unless it has a title or a user message with text."""
    if title := title_of(parts):
        connection.execute(_GIVE_TITLE, {"session": session_id, "title": title})


def title_of(parts: Iterable[Mapping[str, Any]]) -> str:
    """Return the beginning of a message in one line, with escapes in the place of what does not show; "" if it has no
    text."""
    text = " ".join(part["text"] for part in parts if part["type"] == "text").lstrip()[:_READ]
    line = escape_invisible(" ".join(text.split(maxsplit=_WORDS)[:_WORDS]))
    return line if len(line) <= TITLE_LENGTH else f"{line[: TITLE_LENGTH - 1].rstrip()}…"
