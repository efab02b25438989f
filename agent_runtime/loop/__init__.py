"""The one loop: turns, limits, the repeat guard, the only scheduler, live streams."""

from .compaction.agent import SummarizerModels
from .compaction.service import CompactionService
from .core.agent_rules import MIGRATION as AGENT_RULES
from .core.agent_rules import AgentRules
from .core.authority import AuthorityResolver
from .core.counters import Counters
from .core.events import EventBus
from .core.live_sessions import MAIN_ALIAS, LiveSession, LiveSessions
from .core.model_windows import ModelWindows
from .core.turn_state import ExternalWork, Turn, WorkRecorder
from .core.turn_stream import StreamInterrupted, TurnStream
from .execution.finalizer import TurnFinalizer
from .execution.runner import TurnRunner
from .limits.budget import UsageBudget
from .limits.outcome import ERROR_STATUSES, TurnOutcome
from .limits.price_check import PriceCheck
from .limits.turn_limits import TurnLimits
from .notes.memory import MemoryNotes
from .notes.warnings import Warnings
from .requests.agent_permissions import AgentPermissionService
from .requests.chats import ChatService, CompletedTurn, IncomingMessage, reply_of
from .requests.human_answers import HumanAnswer, HumanAnswers
from .requests.message_work import MessageWork, NoRecord
from .requests.pending_list import list_pending
from .requests.recovery import Recovery, WorkStore
from .requests.result_urls import TaskReports, checked_result_url
from .requests.task_list import list_tasks
from .requests.tasks import MIGRATION as TASKS
from .requests.tasks import StoredTask, TaskAdmission, TaskService, assignment_of, delete_tasks, record_of
from .scheduling.admission import Admission
from .scheduling.message_size import MessageSizeCheck
from .services import LoopServices
from .sessions.session_service import PromptView, SessionService, archive_session, close_session
from .sessions.session_status import compute_session_status
from .subagents.service import Subagents

MIGRATIONS = (TASKS, AGENT_RULES)

__all__ = [
    "ERROR_STATUSES",
    "MAIN_ALIAS",
    "MIGRATIONS",
    "Admission",
    "AgentPermissionService",
    "AgentRules",
    "AuthorityResolver",
    "ChatService",
    "CompactionService",
    "CompletedTurn",
    "Counters",
    "EventBus",
    "ExternalWork",
    "HumanAnswer",
    "HumanAnswers",
    "IncomingMessage",
    "LiveSession",
    "LiveSessions",
    "LoopServices",
    "MemoryNotes",
    "MessageSizeCheck",
    "MessageWork",
    "ModelWindows",
    "NoRecord",
    "PriceCheck",
    "PromptView",
    "Recovery",
    "SessionService",
    "StoredTask",
    "StreamInterrupted",
    "Subagents",
    "SummarizerModels",
    "TaskAdmission",
    "TaskReports",
    "TaskService",
    "Turn",
    "TurnFinalizer",
    "TurnLimits",
    "TurnOutcome",
    "TurnRunner",
    "TurnStream",
    "UsageBudget",
    "Warnings",
    "WorkRecorder",
    "WorkStore",
    "archive_session",
    "assignment_of",
    "checked_result_url",
    "close_session",
    "compute_session_status",
    "delete_tasks",
    "list_pending",
    "list_tasks",
    "record_of",
    "reply_of",
]
