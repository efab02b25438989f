"""What is remembered: sessions, messages, parts, and the ledger of turns."""

from . import history, rows
from .history import Message, SessionRow, TurnRow
from .ids import Ids, is_session_id
from .parts import RETRY, MessageParts, text_of, tool_name
from .recorder import Recorder
from .repair import CALL_ERROR, complete_steps, interrupt, reopen
from .replay import replay, replay_parts
from .rows import MessageRow, NewSession, NewTurn
from .schema import MIGRATIONS

__all__ = [
    "CALL_ERROR",
    "MIGRATIONS",
    "RETRY",
    "Ids",
    "Message",
    "MessageParts",
    "MessageRow",
    "NewSession",
    "NewTurn",
    "Recorder",
    "SessionRow",
    "TurnRow",
    "complete_steps",
    "history",
    "interrupt",
    "is_session_id",
    "reopen",
    "replay",
    "replay_parts",
    "rows",
    "text_of",
    "tool_name",
]
