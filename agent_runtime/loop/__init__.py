"""The one loop: turns, limits, the repeat guard, the only scheduler, live streams."""

from .compaction.agent import Cast
from .compaction.service import Compactions
from .core.authority import Powers
from .core.events import EventBus
from .core.limits import IN_ERROR, Books, Limits, Outcome
from .core.live_sessions import MAIN, Conversation, Conversations
from .core.turn_state import Duty, Mandate, Turn
from .core.turn_stream import CutOff, LiveTurn
from .notes.memory import Remembering
from .notes.warnings import Cautions
from .requests.chats import Chats, Finished, Incoming, reply_of
from .requests.human_answers import Answer, Answers
from .requests.message_size import Fitting
from .requests.recovery import Keeper, Recovery
from .requests.tasks import MIGRATIONS, Assigned, Tasks, record_of
from .requests.tasks import forget as forget_tasks
from .scheduling.admission import Admission
from .scheduling.finalizer import Settler
from .scheduling.runner import Counters, TurnRunner
from .services import Hallway
from .sessions.session_cost import PriceCheck
from .sessions.session_service import Seen, Sessions, archive_session, close_session
from .sessions.session_status import standing
from .subagents.service import Subagents

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
