"""The mediation listener: connections of agents, dispatch of work, the durable ledger of work, fences and audit."""

from .addresses import bind, parse_address
from .channels.channel import Auth, Dialect, WorkspaceChannel
from .dispatch.readiness import GUEST_PORT, Readiness
from .http.routes import router
from .http.schemas import QuarantineWorkspace
from .ledger.lock import ledger_lock
from .ledger.work import LedgerRecord
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
    "QuarantineWorkspace",
    "Readiness",
    "WorkspaceChannel",
    "WorkspaceOwner",
    "bind",
    "ledger_lock",
    "parse_address",
    "router",
]
