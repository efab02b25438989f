"""What is remembered: sessions, messages, parts, and the ledger of turns."""

from . import branches, briefs, history, listing, markers, retention, rows, said, transfer
from .branches import Branch, Rewound
from .briefs import Brief
from .history import Message, SessionRow, TurnRow
from .ids import Ids, is_session_id
from .listing import CUSTOM, Cursor, StoredSession, Waiting, unknown_session
from .markers import COMPACTION, Marked, Marker, Shortened
from .parts import (
    ASKED,
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
from .recorder import Recorder
from .repair import CALL_ERROR, TURN_ERROR, complete_steps, interrupt, reopen
from .replay import replay, replay_parts
from .rows import MessageRow, NewSession, NewTurn
from .schema import MIGRATIONS

__all__ = [
    "ASKED",
    "CALL_ERROR",
    "COMPACTION",
    "CUSTOM",
    "MIGRATIONS",
    "NOTICE",
    "RETRY",
    "STEER",
    "STEP_COUNT",
    "TURN_ERROR",
    "Branch",
    "Brief",
    "Cursor",
    "Ids",
    "Marked",
    "Marker",
    "Message",
    "MessageParts",
    "MessageRow",
    "NewSession",
    "NewTurn",
    "Recorder",
    "Rewound",
    "SessionRow",
    "Shortened",
    "StoredSession",
    "TurnRow",
    "Waiting",
    "branches",
    "briefs",
    "complete_steps",
    "history",
    "interrupt",
    "is_session_id",
    "listing",
    "markers",
    "past_steps",
    "reopen",
    "replay",
    "replay_parts",
    "retention",
    "rows",
    "said",
    "shown_metadata",
    "shown_parts",
    "text_of",
    "tool_name",
    "transfer",
    "unknown_session",
]
