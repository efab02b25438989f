"""The mediation listener: agents' connections, the dispatch gate, the durable ledger of work, retries and fencing."""

from .connection.addresses import bind, parse_address
from .dispatch.channel import Auth, Dialect, WorkspaceChannel
from .dispatch.readiness import GUEST_PORT, Readiness
from .dispatch.work import LedgerRecord
from .http.routes import router
from .http.schemas import QuarantineWorkspace
from .ledger.lock import ledger_lock
from .limits import ListenerLimits
from .listener import Listener

__all__ = [
    "GUEST_PORT",
    "Auth",
    "Dialect",
    "LedgerRecord",
    "Listener",
    "ListenerLimits",
    "QuarantineWorkspace",
    "Readiness",
    "WorkspaceChannel",
    "bind",
    "ledger_lock",
    "parse_address",
    "router",
]
