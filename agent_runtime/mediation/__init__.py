"""The entry point for work from the host: the mediation channel (docs/reference/mediation.md)."""

from .channel.api_connections import ServeConnection
from .channel.channel import ChannelStatus, MediationChannel
from .channel.identity import Identity
from .channel.side_effect_gate import ChannelGate
from .constraints.constraints import ConstraintService
from .ledger.ledger import MIGRATIONS, needed_sessions
from .ledger.outbox import Outbox
from .work.file_work import read_request, run_file_request, write_result
from .work.request_limits import WorkRefused
from .work.task_reporter import TaskReporter
from .work.turn_worker import RunningWork, TurnWorker, WorkRunner
from .work.work_service import WorkRules, WorkService

__all__ = [
    "MIGRATIONS",
    "ChannelGate",
    "ChannelStatus",
    "ConstraintService",
    "Identity",
    "MediationChannel",
    "Outbox",
    "RunningWork",
    "ServeConnection",
    "TaskReporter",
    "TurnWorker",
    "WorkRefused",
    "WorkRules",
    "WorkRunner",
    "WorkService",
    "needed_sessions",
    "read_request",
    "run_file_request",
    "write_result",
]
