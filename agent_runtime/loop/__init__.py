"""The one loop: turns, limits, the repeat guard, the only scheduler, live streams."""

from .admission import Admission
from .answers import Answer, Answers
from .chats import Chats, Finished, Incoming, reply_of
from .conversations import Conversation, Conversations
from .events import EventBus
from .hallway import Hallway
from .limits import IN_ERROR, Books, Limits, Outcome
from .records import Seen, Sessions, archive_session, close_session
from .recovery import Recovery
from .runner import Counters, TurnRunner
from .standing import standing
from .state import Turn
from .streams import CutOff, LiveTurn
from .tasks import MIGRATIONS, Assigned, Tasks

__all__ = [
    "IN_ERROR",
    "MIGRATIONS",
    "Admission",
    "Answer",
    "Answers",
    "Assigned",
    "Books",
    "Chats",
    "Conversation",
    "Conversations",
    "Counters",
    "CutOff",
    "EventBus",
    "Finished",
    "Hallway",
    "Incoming",
    "Limits",
    "LiveTurn",
    "Outcome",
    "Recovery",
    "Seen",
    "Sessions",
    "Tasks",
    "Turn",
    "TurnRunner",
    "archive_session",
    "close_session",
    "reply_of",
    "standing",
]
