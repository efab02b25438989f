"""What the bodies of requests may take of a guest."""

from __future__ import annotations

from agent_common.api import BodyLimits
from agent_common.net import ShareCounter

BODY_LIMIT = 8 * 1024 * 1024
"""Bytes of one body."""
MAX_TOTAL_BYTES = 8 * BODY_LIMIT
"""Of all bodies at once, without the free bytes of each."""
FREE_BYTES = 16 * 1024
"""Of each body that are not counted."""


def create_body_limits() -> BodyLimits:
    """The limits of one server."""
    return BodyLimits(
        BODY_LIMIT,
        ShareCounter(MAX_TOTAL_BYTES),
        f"the bodies that this server reads at the moment have {MAX_TOTAL_BYTES} bytes: send this one again later",
        {"Retry-After": "1", "Connection": "close"},
        free_bytes=FREE_BYTES,
    )
