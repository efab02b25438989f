"""The mediation listener: agents' connections, dispatch of work, its durable ledger, fences and the audit trail."""

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
