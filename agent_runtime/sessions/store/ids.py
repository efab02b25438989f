"""Row ids: `ses_`, `msg_`, `prt_` + 12 hex + 14 base62 characters.

See docs/explanation/design.md#rows-are-ordered-by-time-then-id.

The 12 hex digits are milliseconds times 4096 plus a counter, in 48 bits, so they wrap every 795 days: rows are
ordered by `(created_at, id)`, never by id alone.
"""

from __future__ import annotations

import os
import string
import threading
from typing import Literal

from ...ports import Clock

Kind = Literal["ses", "msg", "prt"]
_BASE62 = string.digits + string.ascii_uppercase + string.ascii_lowercase
_DIGITS = bytes(ord(_BASE62[number % 62]) for number in range(256))
"""A digit for every byte. The first eight are slightly more likely; fourteen digits still carry 79 random bits."""
_STAMP_BITS = 48


class Ids:
    """Makes ids that sort by insertion, within one millisecond too and when the clock goes back."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = 0
        self._lock = threading.Lock()

    def new(self, kind: Kind) -> str:
        with self._lock:
            self._last = max(self._clock.now_ms() << 12, self._last + 1)
            stamp = self._last & ((1 << _STAMP_BITS) - 1)
        return f"{kind}_{stamp:012x}{os.urandom(14).translate(_DIGITS).decode()}"


def is_session_id(text: str) -> bool:
    """Return whether a text has the shape of our session ids; any other name from a caller is an alias."""
    return len(text) == 30 and text.startswith("ses_") and text[4:].isalnum()
