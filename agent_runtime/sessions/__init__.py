"""What is remembered: sessions, messages, parts, and the ledger of turns."""

from . import branches, history, listing, rows, transfer
from .branches import Branch, Rewound
from .history import Message, SessionRow, TurnRow
from .ids import Ids, is_session_id
from .listing import CUSTOM, Cursor, StoredSession, Waiting, unknown_session
from .parts import NOTICE, RETRY, STEER, MessageParts, text_of, tool_name
from .recorder import Recorder
from .repair import CALL_ERROR, TURN_ERROR, complete_steps, interrupt, reopen
from .replay import replay, replay_parts
from .rows import MessageRow, NewSession, NewTurn
from .schema import MIGRATIONS

__all__ = [
    "CALL_ERROR",
    "CUSTOM",
    "MIGRATIONS",
    "NOTICE",
    "RETRY",
    "STEER",
    "TURN_ERROR",
    "Branch",
    "Cursor",
    "Ids",
    "Message",
    "MessageParts",
    "MessageRow",
    "NewSession",
    "NewTurn",
    "Recorder",
    "Rewound",
    "SessionRow",
    "StoredSession",
    "TurnRow",
    "Waiting",
    "branches",
    "complete_steps",
    "history",
    "interrupt",
    "is_session_id",
    "listing",
    "reopen",
    "replay",
    "replay_parts",
    "rows",
    "text_of",
    "tool_name",
    "transfer",
    "unknown_session",
]
