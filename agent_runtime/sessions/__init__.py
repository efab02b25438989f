"""The record of sessions: their messages and parts, and the ledger of turns."""

from . import branches, markers, retention, spoken_messages
from .branches import RewindResult
from .copies import SessionCopy, write_copy
from .copy_shares import CopyShares
from .forks import Branch, Fork, plan_fork
from .markers import COMPACTION, Marked, Marker, Shortened, skill_names
from .record.approvals import APPROVAL_PART, APPROVAL_PREFIX, approval_id, approvals_shown
from .record.parts import (
    INVALID_RESULT,
    NOTICE,
    RETRY,
    STEER,
    STEP_COUNT,
    MessageParts,
    past_steps,
    shown_metadata,
    shown_parts,
    text_of,
    tool_name,
)
from .record.recorder import Recorder
from .record.repair import CALL_ERROR, TURN_ERROR, completed_step_count, interrupt_turn, reopen_turn
from .record.replay import replay, replay_parts
from .store import agent_prompts, history, listing, rows
from .store.agent_prompts import AgentPrompt
from .store.fallbacks import FALLBACKS, note_fallback
from .store.history import Message, SessionRow, TurnRow
from .store.ids import Ids, is_session_id
from .store.listing import CUSTOM, Cursor, SessionChoice, StoredSession, WaitingMessage, unknown_session
from .store.rows import MessageRow, NewSession, NewTurn
from .store.schema import MIGRATIONS
from .transfer import transfer

__all__ = [
    "APPROVAL_PART",
    "APPROVAL_PREFIX",
    "CALL_ERROR",
    "COMPACTION",
    "CUSTOM",
    "FALLBACKS",
    "INVALID_RESULT",
    "MIGRATIONS",
    "NOTICE",
    "RETRY",
    "STEER",
    "STEP_COUNT",
    "TURN_ERROR",
    "AgentPrompt",
    "Branch",
    "CopyShares",
    "Cursor",
    "Fork",
    "Ids",
    "Marked",
    "Marker",
    "Message",
    "MessageParts",
    "MessageRow",
    "NewSession",
    "NewTurn",
    "Recorder",
    "RewindResult",
    "SessionChoice",
    "SessionCopy",
    "SessionRow",
    "Shortened",
    "StoredSession",
    "TurnRow",
    "WaitingMessage",
    "agent_prompts",
    "approval_id",
    "approvals_shown",
    "branches",
    "completed_step_count",
    "history",
    "interrupt_turn",
    "is_session_id",
    "listing",
    "markers",
    "note_fallback",
    "past_steps",
    "plan_fork",
    "reopen_turn",
    "replay",
    "replay_parts",
    "retention",
    "rows",
    "shown_metadata",
    "shown_parts",
    "skill_names",
    "spoken_messages",
    "text_of",
    "tool_name",
    "transfer",
    "unknown_session",
    "write_copy",
]
