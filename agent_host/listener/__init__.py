"""The mediation listener: agents' connections, the dispatch gate, the durable ledger of work, retries and fencing."""

from .addresses import bind, parse_address
from .bodies import QuarantineWorkspace
from .channel import Auth, Channel, Dialect
from .limits import Limits
from .listener import Listener
from .lock import ledger_lock
from .readiness import GUEST_PORT, Readiness
from .routes import router
from .work import Record

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
