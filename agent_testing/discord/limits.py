"""Rate limits: a bucket for each route and channel, one for all requests, and who ignores them."""

from __future__ import annotations

import time
import zlib
from collections import deque
from dataclasses import dataclass
from typing import Literal, Self

CROSSING_SECONDS = 0.25
"""A request that comes so soon after the answer that forbids it may have crossed it on the way."""
_INVALID_SECONDS = 600.0
_INVALID = frozenset({401, 403, 404, 429})
ViolationKind = Literal["exhausted", "retry-after", "invalid-requests", "gateway"]


@dataclass(frozen=True, slots=True)
class RateLimits:
    """How many requests Discord allows. The defaults are what Discord does, as far as bots can see it."""

    messages: int = 5
    """New messages in one channel, in `seconds`."""
    edits: int = 5
    """Changes to messages of one channel, in `seconds`."""
    webhooks: int = 5
    """Answers to one interaction after the first, in `seconds`."""
    others: int = 10
    """Requests to any other route with the same channel or guild, in `seconds`."""
    seconds: float = 5.0
    overall: int = 50
    """All requests of a bot, in a second; interactions are not counted."""
    invalid: int = 10_000
    """Answers 401, 403, 404 and 429 in ten minutes; one more is a violation."""
    gateway: int = 120
    """What a connection of the gateway may send in a minute."""

    @classmethod
    def loose(cls) -> Self:
        """Limits that no test reaches, for tests of other things."""
        return cls(*[100_000] * 4, seconds=1.0, overall=100_000, invalid=100_000)

    @classmethod
    def tight(cls) -> Self:
        """Limits that everything reaches."""
        return cls(messages=2, edits=2, webhooks=2, others=3, seconds=1.0, overall=20, invalid=200)


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that the bot broke and Discord punishes."""

    kind: ViolationKind
    detail: str
    at: float
    """`time.monotonic()`."""


@dataclass(slots=True)
class _Bucket:
    limit: int
    seconds: float
    used: int = 0
    resets: float = 0.0
    exhausted_at: float | None = None
    """When an answer has told the bot that nothing is left; None when it has not."""
    retry_at: float = 0.0
    """When a 429 allows the next request."""
    refused_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the limits say about a request."""

    headers: dict[str, str]
    retry_after: float | None = None
    """Seconds; None if the request is allowed."""
    everywhere: bool = False


class Limiter:
    """The buckets of one double. Use it under the lock of the world."""

    def __init__(self, limits: RateLimits) -> None:
        self.limits = limits
        self.violations: list[Violation] = []
        self._buckets: dict[str, _Bucket] = {}
        self._invalid: deque[float] = deque()

    def check(self, caller: str, route: str, group: str, major: str, *, counted: bool) -> Verdict:
        """Count a request. `group` is a field of the limits; `counted` is whether the limit of all routes has it."""
        now = time.monotonic()
        bucket = self._bucket(f"{caller} {route} {major}", getattr(self.limits, group), self.limits.seconds, now)
        overall = self._bucket(caller, self.limits.overall, 1.0, now)
        self._watch(bucket, now, f"{route} {major}")
        if counted:
            self._watch(overall, now, "all routes")
            if overall.used >= overall.limit:
                return self._refuse(overall, now, {}, everywhere=True)
            overall.used += 1
        headers = {"X-RateLimit-Limit": str(bucket.limit), "X-RateLimit-Bucket": f"{zlib.crc32(route.encode()):08x}"}
        if bucket.used >= bucket.limit:
            return self._refuse(bucket, now, headers)
        bucket.used += 1
        left = bucket.limit - bucket.used
        bucket.exhausted_at = None if left else now
        return Verdict(headers | _state(left, bucket.resets - now))

    def ask_to_wait(self, caller: str, route: str, major: str, seconds: float, *, everywhere: bool) -> Verdict:
        """A 429 that a fault asks for."""
        now = time.monotonic()
        name = caller if everywhere else f"{caller} {route} {major}"
        bucket = self._buckets.setdefault(name, _Bucket(self.limits.others, self.limits.seconds))
        bucket.resets = now + seconds
        bucket.used = bucket.limit
        headers = {} if everywhere else {"X-RateLimit-Bucket": f"{zlib.crc32(route.encode()):08x}"}
        return self._refuse(bucket, now, headers, everywhere=everywhere)

    def answered(self, status: int) -> None:
        """Count invalid requests: Discord bans an address that has too many."""
        if status not in _INVALID:
            return
        now = time.monotonic()
        self._invalid.append(now)
        while self._invalid[0] < now - _INVALID_SECONDS:
            self._invalid.popleft()
        if len(self._invalid) == self.limits.invalid + 1:
            self.report("invalid-requests", f"more than {self.limits.invalid} in ten minutes")

    def report(self, kind: ViolationKind, detail: str) -> None:
        self.violations.append(Violation(kind, detail, time.monotonic()))

    def forget_answers(self) -> None:
        """A new process of a bot cannot know what an earlier one was told."""
        for bucket in self._buckets.values():
            bucket.exhausted_at = None
            bucket.retry_at = 0.0

    def _bucket(self, name: str, limit: int, seconds: float, now: float) -> _Bucket:
        bucket = self._buckets.setdefault(name, _Bucket(limit, seconds))
        if now >= bucket.resets:
            bucket.used = 0
            bucket.resets = now + seconds
            bucket.exhausted_at = None
        return bucket

    def _watch(self, bucket: _Bucket, now: float, what: str) -> None:
        if now < bucket.retry_at - 0.02 and now > bucket.refused_at + CROSSING_SECONDS:
            self.report("retry-after", f"{what}: {bucket.retry_at - now:.2f} s too early")
        elif bucket.exhausted_at is not None and now > bucket.exhausted_at + CROSSING_SECONDS:
            self.report("exhausted", f"{what}: {bucket.resets - now:.2f} s too early")

    def _refuse(self, bucket: _Bucket, now: float, headers: dict[str, str], *, everywhere: bool = False) -> Verdict:
        wait = max(0.001, bucket.resets - now)
        bucket.retry_at = now + wait
        bucket.refused_at = now
        headers = headers | {"Retry-After": str(int(wait + 1)), "Via": "1.1 google"}
        headers["X-RateLimit-Scope"] = "global" if everywhere else "user"
        headers |= {"X-RateLimit-Global": "true"} if everywhere else _state(0, wait)
        return Verdict(headers, round(wait, 3), everywhere)


def _state(left: int, seconds: float) -> dict[str, str]:
    return {
        "X-RateLimit-Remaining": str(left),
        "X-RateLimit-Reset": f"{time.time() + seconds:.3f}",
        "X-RateLimit-Reset-After": f"{seconds:.3f}",
    }
