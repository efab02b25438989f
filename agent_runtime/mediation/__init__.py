"""Entry point for work from the host: the mediation channel (docs/mediation.md)."""

from .channel.channel import Channel, ChannelStatus
from .channel.identity import Identity
from .channel.side_effect_gate import ChannelGate
from .constraints.constraints import ConstraintKeeper
from .ledger.ledger import MIGRATIONS, needed_sessions
from .ledger.outbox import Outbox
from .redaction import Veil
from .work.file_work import answer, read_request, write_result
from .work.request_limits import Refused
from .work.turn_worker import Job, Turns, Worker
from .work.work_service import Clerk, Rules

__all__ = [
    "MIGRATIONS",
    "Channel",
    "ChannelGate",
    "ChannelStatus",
    "Clerk",
    "ConstraintKeeper",
    "Identity",
    "Job",
    "Outbox",
    "Refused",
    "Rules",
    "Turns",
    "Veil",
    "Worker",
    "answer",
    "needed_sessions",
    "read_request",
    "write_result",
]
