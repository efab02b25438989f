"""How both servers run uvicorn: bounded connections, a garbage collector that does not stop requests, and an end when
the event loop stands still."""

from typing import TYPE_CHECKING, Any

from .gc_tuning import tune_interpreter
from .header_limits import BoundedHttp, abort_connection, claim_connection, limited_http_protocol
from .pushing import Push, never_push, pusher
from .stall_watch import end_if_stalled

if TYPE_CHECKING:
    from .web_socket import limited_web_socket_protocol

__all__ = [
    "BoundedHttp",
    "Push",
    "abort_connection",
    "claim_connection",
    "end_if_stalled",
    "limited_http_protocol",
    "limited_web_socket_protocol",
    "never_push",
    "pusher",
    "tune_interpreter",
]


def __getattr__(name: str) -> Any:
    """Import WebSockets when they are used: the guest has none, and needs no library for them."""
    if name != "limited_web_socket_protocol":
        raise AttributeError(name)
    from .web_socket import limited_web_socket_protocol

    return limited_web_socket_protocol
