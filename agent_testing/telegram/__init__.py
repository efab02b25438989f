"""A strict double of Telegram's Bot API."""

from .fake import FakeTelegram
from .fault_plan import TelegramFaults
from .faults import FaultKind
from .journal import Call
from .limits import TelegramLimits, Violation
from .model import Account, Button, Chat, ChatAction, Content, Entity, Message, StoredFile, Topic
from .people import Group, User
from .world import CallbackAnswer, Press

__all__ = [
    "Account",
    "Button",
    "Call",
    "CallbackAnswer",
    "Chat",
    "ChatAction",
    "Content",
    "Entity",
    "FakeTelegram",
    "FaultKind",
    "Group",
    "Message",
    "Press",
    "StoredFile",
    "TelegramFaults",
    "TelegramLimits",
    "Topic",
    "User",
    "Violation",
]
