"""A session of the gateway: the events that a bot has been sent, kept so that it can resume."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable

from .entities import JSON, Bot

RESUME_SECONDS = 120.0
_MOST_FRAMES = 10_000


class Session:
    """Use it under the lock of the world. A connection sends the events that come after those that its bot has."""

    def __init__(self, identity: str, bot: Bot, intents: int) -> None:
        self.id = identity
        self.bot = bot
        self.intents = intents
        self.wake: Callable[[], None] | None = None
        """Set while a connection serves the session: tells it of more events."""
        self.left_at: float | None = None
        """`time.monotonic()` when its connection was lost."""
        self.last = 0
        """The sequence number of the newest event."""
        self._frames: deque[str] = deque(maxlen=_MOST_FRAMES)
        self._late: list[tuple[str, JSON]] = []

    @property
    def expired(self) -> bool:
        """Whether Discord has forgotten it."""
        return self.left_at is not None and time.monotonic() - self.left_at > RESUME_SECONDS

    def has_after(self, sequence: int) -> bool:
        """Whether all events after a number are still kept."""
        return sequence >= self.last - len(self._frames)

    def after(self, sequence: int) -> list[str]:
        """The events after a number, oldest first."""
        kept_from = self.last - len(self._frames)
        return list(self._frames)[max(0, sequence - kept_from) :]

    def dispatch(self, name: str, data: JSON) -> None:
        """Send an event, and those that were held back behind it."""
        late = self._late
        self._late = []
        for one_name, one in ((name, data), *late):
            self.last += 1
            self._frames.append(json.dumps({"op": 0, "t": one_name, "s": self.last, "d": one}))
        if self.wake:
            self.wake()

    def hold(self, name: str, data: JSON) -> None:
        """Keep an event until the next one was sent, or until `flush`."""
        self._late.append((name, data))

    def flush(self) -> None:
        """Send what is held back."""
        if self._late:
            name, data = self._late.pop(0)
            self.dispatch(name, data)
