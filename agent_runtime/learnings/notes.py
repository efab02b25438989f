"""Notes of failures and corrections, and how they become entries of a notes file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from agent_common.line_text import comparable_text, note_key, one_line, truncate_middle
from agent_common.protocol import is_object
from agent_common.redaction import Redactor

from ..ports import Correction, ToolContext, ToolResult
from .notes_file import NoteEntry, code_span
from .section import principal_label

RECORDED_KINDS = ("invalid", "backend", "timeout")
"""Failures that the agent can avoid by acting otherwise. A call that is denied or unavailable now may be allowed next
time or for another principal: a note about it would keep agents from what they may do."""
MAX_ERROR_LENGTH = 300
MAX_CORRECTION_LENGTH = 500
MAX_DETAIL_LENGTH = 200
MAX_ANSWER_LENGTH = 160


@dataclass(frozen=True, slots=True)
class FailureNote:
    """A failed call, before redaction."""

    tool: str
    kind: str
    text: str
    principal: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class CorrectionNote:
    """A correction, before redaction."""

    correction: Correction
    at_ms: int


def failure_note(
    tool: str, arguments: Mapping[str, Any], result: ToolResult, context: ToolContext, at_ms: int
) -> FailureNote | None:
    """Return a note about a call; None if it succeeded, or nothing can be learnt from its failure."""
    kind = result.metadata.get("kind")
    if result.type == "error" and kind in RECORDED_KINDS:
        return FailureNote(tool, kind, truncate_middle(result.error_text or "no text"), context.principal, at_ms)
    if tool == "bash" and is_object(result.data) and result.data.get("timed_out") is True:
        text = f"the command was ended at its deadline: {arguments.get('command')}"
        return FailureNote(tool, "timeout", truncate_middle(text), context.principal, at_ms)
    return None


def to_entry(note: FailureNote | CorrectionNote, redactor: Redactor) -> NoteEntry:
    """Return the note as an entry of its file, without secrets."""
    made = (
        _failure_entry(note, redactor)
        if isinstance(note, FailureNote)
        else _correction_entry(note.correction, redactor)
    )
    day = datetime.fromtimestamp(note.at_ms / 1000, tz=UTC).strftime("%Y-%m-%d %H:%M")
    fields = {**made.fields, "times": "1", "first": day, "last": day}
    text = fields.pop("text")
    return NoteEntry(made.title, {**{name: value for name, value in fields.items() if value}, "text": text})


def _failure_entry(note: FailureNote, redactor: Redactor) -> NoteEntry:
    clean = redactor.redact_note(note.text)
    user = principal_label(note.principal)
    tool = one_line(note.tool, 64)
    title = note_key("e", user, tool, note.kind, comparable_text(clean))
    text = code_span(one_line(clean, MAX_ERROR_LENGTH) or "no text")
    return NoteEntry(title, {"tool": tool, "error": note.kind, "user": user, "text": text})


def _correction_entry(given: Correction, redactor: Redactor) -> NoteEntry:
    def clean(text: str, limit: int) -> str:
        line = one_line(redactor.redact_note(truncate_middle(text)), limit)
        return code_span(line) if line else ""

    text = clean(given.text, MAX_CORRECTION_LENGTH)
    user = principal_label(given.principal)
    fields = {
        "from": given.source,
        "user": user,
        "session": given.session_id,
        "instead of": clean(given.instead_of, MAX_DETAIL_LENGTH),
        "where": clean(given.where, MAX_DETAIL_LENGTH),
        "answer to": clean(given.answer_to, MAX_ANSWER_LENGTH),
        "text": text or code_span("no text"),
    }
    whose = given.source.partition(" ")[0]
    return NoteEntry(note_key("c", user, whose, " ".join(text.casefold().split()), fields["where"].casefold()), fields)
