"""The mediation listener: connections of agents, dispatch of work, the durable ledger of work, fences and audit."""

from .addresses import bind, parse_address
from .channels.channel import Auth, Dialect, WorkspaceChannel
from .channels.workspace_channels import channel_key_in
from .dispatch.readiness import GUEST_PORT, Readiness
from .http.routes import router
from .http.schemas import QuarantineWorkspace
from .ledger.lock import ledger_lock
from .ledger.promotions import Promotions
from .ledger.states import public_status
from .ledger.task_results import RecordedResult, read_task_result
from .ledger.work import LedgerRecord, OpenWork
from .limits import ListenerLimits
from .listener import Listener
from .owner import NoOwner, WorkspaceOwner

__all__ = [
    "GUEST_PORT",
    "Auth",
    "Dialect",
    "LedgerRecord",
    "Listener",
    "ListenerLimits",
    "NoOwner",
    "OpenWork",
    "Promotions",
    "QuarantineWorkspace",
    "Readiness",
    "RecordedResult",
    "WorkspaceChannel",
    "WorkspaceOwner",
    "bind",
    "channel_key_in",
    "ledger_lock",
    "parse_address",
    "public_status",
    "read_task_result",
    "router",
]
