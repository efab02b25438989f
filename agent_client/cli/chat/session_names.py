"""Names of new sessions, which a person can tell apart and type."""

from __future__ import annotations

from datetime import datetime
from secrets import token_hex

from ..errors import UsageError


def new_session_name() -> str:
    """Return a name that no session has: the time, and a few random digits."""
    return f"chat-{datetime.now().astimezone():%Y%m%d-%H%M%S}-{token_hex(2)}"


def checked_session_name(name: str) -> str:
    """Return the name. Raises UsageError if no session can have it."""
    if "/" in name or not name.strip() or len(name) > 200:
        raise UsageError(f"session: {name[:50]!r} must be a name without `/`, at most 200 characters long")
    return name
