"""The one loop: turns, limits, the repeat guard, the only scheduler, live streams."""

from .admission import Admission
from .answers import Answer, Answers
from .cautions import Cautions
from .chats import Chats, Finished, Incoming, reply_of
from .compactions import Compactions
from .conversations import MAIN, Conversation, Conversations
from .events import EventBus
from .fitting import Fitting
from .hallway import Hallway
from .limits import IN_ERROR, Books, Limits, Outcome
from .powers import Powers
from .prices import PriceCheck
from .records import Seen, Sessions, archive_session, close_session
from .recovery import Keeper, Recovery
from .remembering import Remembering
from .runner import Counters, TurnRunner
from .settling import Settler
from .standing import standing
from .state import Duty, Mandate, Turn
from .streams import CutOff, LiveTurn
from .subagents import Subagents
from .summariser import Cast
from .tasks import MIGRATIONS, Assigned, Tasks, record_of
from .tasks import forget as forget_tasks

__all__ = [
    "IN_ERROR",
    "MAIN",
    "MIGRATIONS",
    "Admission",
    "Answer",
    "Answers",
    "Assigned",
    "Books",
    "Cast",
    "Cautions",
    "Chats",
    "Compactions",
    "Conversation",
    "Conversations",
    "Counters",
    "CutOff",
    "Duty",
    "EventBus",
    "Finished",
    "Fitting",
    "Hallway",
    "Incoming",
    "Keeper",
    "Limits",
    "LiveTurn",
    "Mandate",
    "Outcome",
    "Powers",
    "PriceCheck",
    "Recovery",
    "Remembering",
    "Seen",
    "Sessions",
    "Settler",
    "Subagents",
    "Tasks",
    "Turn",
    "TurnRunner",
    "archive_session",
    "close_session",
    "forget_tasks",
    "record_of",
    "reply_of",
    "standing",
]
