"""The rates at which a bot may send, and what it does about being refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from .api_error import too_many_requests
from .model import Chat

_EVERYWHERE = 0


@dataclass(frozen=True, slots=True)
class TelegramLimits:
    """Messages and edits that Telegram lets pass; infinity turns a limit off."""

    per_second: float = 30.0
    """In all chats together."""
    chat_per_second: float = 1.0
    chat_burst: int = 3
    """How many may come at once in one chat after a silence."""
    group_per_minute: float = 20.0
    callback_seconds: float = 15.0
    """How long a press can be acknowledged."""

    @classmethod
    def none(cls) -> TelegramLimits:
        return cls(math.inf, math.inf, 1, math.inf)


@dataclass(frozen=True, slots=True)
class Violation:
    """A call that came too early."""

    at: float
    method: str
    chat: int
    reason: str


class _Bucket:
    """Refills at a rate, up to a burst."""

    def __init__(self, rate: float, burst: float, now: float) -> None:
        self._rate = rate
        self._burst = burst
        self._level = burst
        self._at = now

    def seconds_until_free(self, now: float) -> float:
        if math.isinf(self._rate):
            return 0.0
        self._level = min(self._burst, self._level + (now - self._at) * self._rate)
        self._at = now
        return max(0.0, (1.0 - self._level) / self._rate)

    def take(self) -> None:
        self._level -= 1.0


class RateLimiter:
    """Refuses what comes too fast. After a refusal all calls in the chat must wait as long as the answer says."""

    def __init__(self, limits: TelegramLimits, clock: Callable[[], float]) -> None:
        self.limits = limits
        self.violations = list[Violation]()
        self._clock = clock
        self._buckets: dict[tuple[str, int], _Bucket] = {}
        self._blocked_until: dict[int, float] = {}

    def set_limits(self, limits: TelegramLimits) -> None:
        """Change the limits, and forget what was sent before."""
        self.limits = limits
        self._buckets.clear()
        self._blocked_until.clear()

    def admit(self, method: str, chat: Chat) -> None:
        """Count a call. Raises ApiError 429."""
        now = self._clock()
        if (left := self._blocked_until.get(chat.id, now) - now) > 0:
            self._refuse(method, chat.id, left, "did not wait for retry_after")
        buckets = self._buckets_of(chat, now)
        for reason, bucket in buckets.items():
            if (left := bucket.seconds_until_free(now)) > 1e-9:
                self._refuse(method, chat.id, left, reason)
        for bucket in buckets.values():
            bucket.take()

    def block(self, seconds: float, chat: int) -> None:
        """Refuse every call for a time in one chat."""
        self._blocked_until[chat] = self._clock() + seconds

    def _refuse(self, method: str, chat: int, seconds: float, reason: str) -> None:
        self.violations.append(Violation(self._clock(), method, chat, reason))
        retry_after = max(1, math.ceil(seconds))
        self.block(retry_after, chat)
        raise too_many_requests(retry_after)

    def _buckets_of(self, chat: Chat, now: float) -> dict[str, _Bucket]:
        limits = self.limits
        wanted = {
            "too fast in one chat": (chat.id, limits.chat_per_second, limits.chat_burst),
            "too fast in all chats": (_EVERYWHERE, limits.per_second, limits.per_second),
        }
        if chat.kind != "private":
            wanted["too fast in a group"] = (chat.id, limits.group_per_minute / 60, limits.group_per_minute)
        return {
            reason: self._buckets.setdefault((reason, where), _Bucket(rate, burst, now))
            for reason, (where, rate, burst) in wanted.items()
        }
