"""HTTP as the client needs it: one connection pool with token, deadlines and retries; streams that are taken up
again."""

from .connection import MAX_ANSWER_BYTES, SILENCE_SECONDS, WRITE_SECONDS, Call, Connection, path
from .pages import pages
from .read_bytes import read_bytes
from .resume import FIRST_POLL_SECONDS, POLL_SECONDS, RECONNECT_SECONDS, resumed
from .without_none import without_none

__all__ = [
    "FIRST_POLL_SECONDS",
    "MAX_ANSWER_BYTES",
    "POLL_SECONDS",
    "RECONNECT_SECONDS",
    "SILENCE_SECONDS",
    "WRITE_SECONDS",
    "Call",
    "Connection",
    "pages",
    "path",
    "read_bytes",
    "resumed",
    "without_none",
]
