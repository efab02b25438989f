"""What the runtime tells the keeper, and how it becomes an entry of a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from agent_common.line_text import bounded, key, normalised, one_line
from agent_common.protocol import is_object
from agent_common.redaction import redacted

from ..ports import Correction, ToolContext, ToolResult
from .notes_file import NoteEntry, quoted
from .section import name_of

RECORDED = ("invalid", "backend", "timeout")
"""Failures that the agent can avoid by doing something else. What is denied or not there now may be allowed or there
the next time, and depends on who asks: a note about that would keep agents from what they may do."""
LONGEST_ERROR = 300
LONGEST_CORRECTION = 500
LONGEST_ASIDE = 200
LONGEST_ANSWER = 160


@dataclass(frozen=True, slots=True)
class FailureNote:
    """A call that failed, as it came."""

    tool: str
    kind: str
    text: str
    principal: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class CorrectionNote:
    """A correction, as it came."""

    correction: Correction
    at_ms: int


def failure(
    tool: str, arguments: Mapping[str, Any], result: ToolResult, context: ToolContext, at_ms: int
) -> FailureNote | None:
    """What there is to note about a call; none when it went well, or nothing can be learnt from it."""
    kind = result.metadata.get("kind")
    if result.type == "error" and kind in RECORDED:
        return FailureNote(tool, kind, bounded(result.error_text or "no text"), context.principal, at_ms)
    if tool == "bash" and is_object(result.data) and result.data.get("timed_out") is True:
        text = f"the command was ended at its deadline: {arguments.get('command')}"
        return FailureNote(tool, "timeout", bounded(text), context.principal, at_ms)
    return None


def entry_of(note: FailureNote | CorrectionNote, secrets: Sequence[str]) -> NoteEntry:
    """The note as it goes into its file, without secrets."""
    made = _error(note, secrets) if isinstance(note, FailureNote) else _correction(note.correction, secrets)
    day = datetime.fromtimestamp(note.at_ms / 1000, tz=UTC).strftime("%Y-%m-%d %H:%M")
    fields = {**made.fields, "times": "1", "first": day, "last": day}
    text = fields.pop("text")
    return NoteEntry(made.title, {**{name: value for name, value in fields.items() if value}, "text": text})


def _error(note: FailureNote, secrets: Sequence[str]) -> NoteEntry:
    clean = redacted(note.text, secrets)
    user, tool = name_of(note.principal), one_line(note.tool, 64)
    title = key("e", user, tool, note.kind, normalised(clean))
    text = quoted(one_line(clean, LONGEST_ERROR) or "no text")
    return NoteEntry(title, {"tool": tool, "error": note.kind, "user": user, "text": text})


def _correction(given: Correction, secrets: Sequence[str]) -> NoteEntry:
    def clean(text: str, limit: int) -> str:
        line = one_line(redacted(bounded(text), secrets), limit)
        return quoted(line) if line else ""

    text, user = clean(given.text, LONGEST_CORRECTION), name_of(given.principal)
    fields = {
        "from": given.source,
        "user": user,
        "session": given.session_id,
        "instead of": clean(given.instead_of, LONGEST_ASIDE),
        "where": clean(given.where, LONGEST_ASIDE),
        "answer to": clean(given.answer_to, LONGEST_ANSWER),
        "text": text or quoted("no text"),
    }
    whose = given.source.partition(" ")[0]
    return NoteEntry(key("c", user, whose, " ".join(text.casefold().split()), fields["where"].casefold()), fields)
