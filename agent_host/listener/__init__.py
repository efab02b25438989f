"""The mediation listener: agents' connections, the dispatch gate, the durable ledger of work, retries and fencing."""

from .connection.addresses import bind, parse_address
from .dispatch.channel import Auth, Channel, Dialect
from .dispatch.readiness import GUEST_PORT, Readiness
from .dispatch.work import Record
from .http.routes import router
from .http.schemas import QuarantineWorkspace
from .ledger.lock import ledger_lock
from .limits import Limits
from .listener import Listener

__all__ = [
    "GUEST_PORT",
    "Auth",
    "Channel",
    "Dialect",
    "Limits",
    "Listener",
    "QuarantineWorkspace",
    "Readiness",
    "Record",
    "bind",
    "ledger_lock",
    "parse_address",
    "router",
]
