"""Results of tasks: read, waited for, and sent to those who asked for a callback."""

from .callbacks.queue import CallbackQueue
from .callbacks.sender import LAST_RETRY_SECONDS, CallbackPolicy, CallbackSender
from .routes import router
from .service import ResultService

__all__ = [
    "LAST_RETRY_SECONDS",
    "CallbackPolicy",
    "CallbackQueue",
    "CallbackSender",
    "ResultService",
    "router",
]
