"""The system prompt, and the view of recorded parts that the model sees."""

from . import transcript
from .load_view import CurrentTurn, read_view
from .loaded_skills import SKILL_TOOL
from .notes import METADATA_KEY as NOTES_KEY
from .notes import bound_notes, format_time, notes_of, sent_note, serialize_notes
from .prompt import PromptEnvironment, PromptInputs, digest, system_prompt
from .provider_fields import as_provider_metadata, call_metadata, message_metadata
from .provider_messages import (
    Step,
    ToolCallRecord,
    denied_text,
    error_envelope,
    runtime_message_text,
    steps_of,
    user_message_text,
    user_text,
)
from .sanitize import unescape, wrap_data
from .tokens import ContextUsage, TokenCalibration, TokenCalibrations, too_long
from .view import CallResult, CutPoint, View, serialize_tools, tool_definition
from .window import MIN_SUMMARY, CompactionHistory, ContextWindow, Cut, cut_all, cut_for

__all__ = [
    "MIN_SUMMARY",
    "NOTES_KEY",
    "SKILL_TOOL",
    "CallResult",
    "CompactionHistory",
    "ContextUsage",
    "ContextWindow",
    "CurrentTurn",
    "Cut",
    "CutPoint",
    "PromptEnvironment",
    "PromptInputs",
    "Step",
    "TokenCalibration",
    "TokenCalibrations",
    "ToolCallRecord",
    "View",
    "as_provider_metadata",
    "bound_notes",
    "call_metadata",
    "cut_all",
    "cut_for",
    "denied_text",
    "digest",
    "error_envelope",
    "format_time",
    "message_metadata",
    "notes_of",
    "read_view",
    "runtime_message_text",
    "sent_note",
    "serialize_notes",
    "serialize_tools",
    "steps_of",
    "system_prompt",
    "too_long",
    "tool_definition",
    "transcript",
    "unescape",
    "user_message_text",
    "user_text",
    "wrap_data",
]
