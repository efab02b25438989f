"""What the bodies of requests may take of a guest."""

from __future__ import annotations

from agent_common.api import BodyLimits
from agent_common.net import ShareCounter

BODY_LIMIT = 8 * 1024 * 1024
"""Bytes of one body."""
CHAT_BYTES = 64 * 1024 * 1024
"""Bytes of one body of `CHAT_PATHS`, of whose old messages nothing is kept; what is kept has the limit of any body."""
MESSAGE_BYTES = BODY_LIMIT - 256 * 1024
"""Bytes of one message in such a body; the rest is for what stands beside the messages."""
CHAT_PATHS = frozenset({"/chat", "/chat/stream"})
MAX_TOTAL_BYTES = 8 * BODY_LIMIT
"""Most bytes of all bodies at once, not counting FREE_BYTES of each."""
FREE_BYTES = 16 * 1024
"""Bytes of each body that do not count."""


def most_bytes(path: str) -> int:
    """Return how many bytes a body for this path may have."""
    return CHAT_BYTES if path in CHAT_PATHS else BODY_LIMIT


def create_body_limits() -> BodyLimits:
    """The limits of one server."""
    return BodyLimits(
        BODY_LIMIT,
        ShareCounter(MAX_TOTAL_BYTES),
        f"the bodies that this server reads at the moment have {MAX_TOTAL_BYTES} bytes: send this one again later",
        {"Retry-After": "1", "Connection": "close"},
        free_bytes=FREE_BYTES,
    )
