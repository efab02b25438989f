"""What the model sees: the prompt, and a view over the recorded parts."""

from . import transcript
from .load_view import CurrentTurn, read_view
from .notes import METADATA_KEY as NOTES_KEY
from .notes import a_time, bounded, kept, notes_of, sent_at
from .prompt import PromptEnvironment, PromptInputs, digest, system_prompt
from .provider_messages import (
    Step,
    ToolCallRecord,
    denied,
    error_envelope,
    steps_of,
    told_by_runtime,
    told_by_user,
    user_text,
)
from .sanitize import meant
from .tokens import ContextUsage, TokenCalibration, TokenCalibrations, overflow_of, too_long
from .view import CallResult, CutPoint, View, definition, lower_tools
from .window import LEAST_SUMMARY, CompactionHistory, ContextWindow, Cut, cut_all, cut_for

__all__ = [
    "LEAST_SUMMARY",
    "NOTES_KEY",
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
    "a_time",
    "bounded",
    "cut_all",
    "cut_for",
    "definition",
    "denied",
    "digest",
    "error_envelope",
    "kept",
    "lower_tools",
    "meant",
    "notes_of",
    "overflow_of",
    "read_view",
    "sent_at",
    "steps_of",
    "system_prompt",
    "told_by_runtime",
    "told_by_user",
    "too_long",
    "transcript",
    "user_text",
]
