"""Write facts of the moment below a user's message when its turn starts. They stay out of the prompt, whose bytes must
never change (docs/explanation/design.md#the-prompt-prefix-never-changes).

Every message says when it was sent, which is recorded anyway. Further notes are composed once, when the turn starts,
and stored with the message (`serialize_notes`, `notes_of`), so that every later request has the same block. A text that
the runtime did not write itself, such as a memory, is wrapped as data with its source.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

from agent_common.clock import calendar_time, clamp_to_calendar
from agent_common.protocol import NOTES_CLOSE, NOTES_OPEN, is_object

from ..ports import Note
from .sanitize import escape_text, wrap_data

MAX_NOTES = 32
NOTE_CAP = 4_000
"""Maximum characters of one note."""
NOTES_CAP = 12_000
"""Maximum characters of all notes of a message."""
METADATA_KEY = "notes"
"""Key of the notes in the metadata of a user's message."""


def sent_note(ms: int) -> Note:
    """Return the first note of every message, to the minute."""
    return Note("sent", format_time(ms))


def format_time(ms: int) -> str:
    """Format a time in epoch milliseconds for the model."""
    return _format_minute(clamp_to_calendar(ms) // 60_000)


@lru_cache(maxsize=16)
def _format_minute(minute: int) -> str:
    return calendar_time(minute * 60_000).strftime("%Y-%m-%d %H:%M UTC, %A")


def bound_notes(notes: Iterable[Note]) -> tuple[Note, ...]:
    """Return the notes that fit, each cut to size, with a warning if some were left out."""
    kept: list[Note] = []
    left = NOTES_CAP
    for number, note in enumerate(notes):
        left -= min(len(note.text), NOTE_CAP)
        if number >= MAX_NOTES or left < 0:
            kept.append(Note("warning", "there was more to note here than fits"))
            break
        cut = len(note.text) > NOTE_CAP
        kept.append(Note(note.kind, f"{note.text[:NOTE_CAP]} [cut]", note.source) if cut else note)
    return tuple(kept)


def notes_block(notes: Sequence[Note]) -> str:
    """Return the notes as the model sees them; no note can end the block."""
    return "\n".join((NOTES_OPEN, *map(_line, notes), NOTES_CLOSE))


def _line(note: Note) -> str:
    if not note.source:  # one line each, as a second line would read as another note
        return f"{note.kind}: {escape_text(' '.join(note.text.split()))}"
    return wrap_data("data", note.text, kind=note.kind, source=note.source)


def serialize_notes(notes: Iterable[Note]) -> list[dict[str, str]]:
    """Return the notes as JSON for storage."""
    return [{"kind": note.kind, "text": note.text} | ({"source": note.source} if note.source else {}) for note in notes]


def notes_of(metadata: Mapping[str, Any]) -> tuple[Note, ...]:
    """Return the notes of a stored message. Invalid ones, from an import, are left out."""
    stored: Any = metadata.get(METADATA_KEY)
    few = cast(list[Any], stored)[: MAX_NOTES + 1] if isinstance(stored, list) else ()
    return tuple(note for one in few if is_object(one) and (note := _note(one)) is not None)


def _note(stored: Mapping[str, Any]) -> Note | None:
    kind, text, source = (stored.get(key, "") for key in ("kind", "text", "source"))
    whole = isinstance(kind, str) and kind.isidentifier() and isinstance(text, str) and isinstance(source, str)
    return Note(kind, text, source) if whole else None
