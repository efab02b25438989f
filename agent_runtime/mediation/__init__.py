"""Entry point for work from the host: the mediation channel (docs/mediation.md)."""

from .bounds import Refused
from .channel import Channel, ChannelStatus
from .clerk import Clerk, Rules
from .constraints import ConstraintKeeper
from .files import answer, read_request, write_result
from .gate import ChannelGate
from .identity import Identity
from .ledger import MIGRATIONS, needed_sessions
from .outbox import Outbox
from .veil import Veil
from .work import Job, Turns, Worker

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
