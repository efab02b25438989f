"""Another process that runs the same bot. Discord sends both of them everything, so that people are answered twice."""

from __future__ import annotations

import asyncio
import hashlib
from base64 import urlsafe_b64encode
from collections import deque

from agent_common.clock import Clock

from ..platform import AnotherCopy

_PREFIX = "agent-"
_KEPT = 2000
_FIRST_SECONDS = 15.0
"""So long after the start, messages of the process before this one may still arrive."""
_WITHIN_SECONDS = 600.0


def nonce_of(key: str) -> str:
    """Return the nonce under which Discord takes a message once: at most 25 characters."""
    return _PREFIX + urlsafe_b64encode(hashlib.sha256(key.encode()).digest()).decode()[:19]


class Copies:
    """Collects signs of another copy. One alone may be an answer of Discord that was lost, and repeated."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._sent: deque[str] = deque(maxlen=_KEPT)
        self._known = asyncio.Event()
        self._started = self._clock.monotonic()
        self._last_sign: float | None = None

    def nonce(self, key: str) -> str:
        """Return the nonce of a message that this process is about to send."""
        nonce = nonce_of(key)
        self._sent.append(nonce)
        return nonce

    def seen(self, nonce: str | int | None) -> None:
        """Note a message of the bot that the gateway delivers. Other programs may send in the bot's name, without a
        nonce of ours."""
        if str(nonce).startswith(_PREFIX) and nonce not in self._sent:
            self.sign()

    def sign(self) -> None:
        """Note what another copy would cause: a press that was acknowledged already is one, too."""
        now = self._clock.monotonic()
        if now - self._started < _FIRST_SECONDS:
            return
        if self._last_sign is not None and now - self._last_sign < _WITHIN_SECONDS:
            self._known.set()
        self._last_sign = now

    async def watch(self) -> None:
        """Wait until another copy is known, and raise AnotherCopy."""
        await self._known.wait()
        self._known.clear()
        raise AnotherCopy("another process runs this bot: it answers messages that this one answers as well")
