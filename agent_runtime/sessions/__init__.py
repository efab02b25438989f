"""What is remembered: sessions, messages, parts, and the ledger of turns."""

from . import history, rows
from .history import Message, SessionRow, TurnRow
from .ids import Ids, is_session_id
from .parts import RETRY, text_of, tool_name
from .recorder import Recorder
from .repair import interrupt
from .replay import replay
from .rows import MessageRow, NewSession, NewTurn
from .schema import MIGRATIONS

__all__ = [
    "MIGRATIONS",
    "RETRY",
    "Ids",
    "Message",
    "MessageRow",
    "NewSession",
    "NewTurn",
    "Recorder",
    "SessionRow",
    "TurnRow",
    "history",
    "interrupt",
    "is_session_id",
    "replay",
    "rows",
    "text_of",
    "tool_name",
]
