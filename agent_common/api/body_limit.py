"""The bytes that the bodies of requests take, counted while they come, for guest and host.

Each body has a limit of its own, and so has the number of connections, but the product of both is more than the memory
of a small machine: all bodies share one budget as well. A length that was only declared takes nothing from others, and
a body that finds no room is refused and never waits, so no two can wait for each other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from starlette.exceptions import HTTPException
from starlette.types import Message, Receive, Scope

from ..net import ShareCounter

_KEY = "agent_common.body"


class BodyRefused(HTTPException):
    """A body that is too large, too slow, or finds no room. FastAPI lets HTTPException alone through from a body."""

    def __init__(self, status: int, code: str, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status, detail, dict(headers or {}))
        self.code = code


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """What bodies may take of a server."""

    most_bytes: int
    """Of one body."""
    shares: ShareCounter
    """Bytes of all bodies."""
    refusal: str
    """Why a body is refused for which the shared budget has too few bytes left."""
    refusal_headers: Mapping[str, str]
    free_bytes: int = 0
    """Bytes of each body that do not count, so that a small one is never refused because of large ones."""
    seconds: float | None = None
    """Seconds in which a body must have come; None: any time."""

    def refuse_too_large(self) -> BodyRefused:
        return BodyRefused(413, "body_too_large", f"the body is larger than {self.most_bytes} bytes; send less")


@dataclass(slots=True)
class LimitedBody:
    """The body of one request. `receive` is the ASGI callable in place of the server's."""

    _limits: BodyLimits
    _receive: Receive
    _holder: str = ""
    """Whose share the bytes are of; empty: nobody's, and all of the budget may go to it."""
    _received: int = 0
    _counted: int = 0
    _whole: bool = False
    _due: float | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if self._limits.seconds is not None:
            self._due = asyncio.get_running_loop().time() + self._limits.seconds

    def attach(self, scope: Scope) -> LimitedBody:
        """Let `release_body` find it by the scope."""
        scope[_KEY] = self
        return self

    async def receive(self) -> Message:
        """The next message. Raises BodyRefused, and gives back what was counted."""
        if self._whole:  # what is waited for now is the caller's going away
            return await self._receive()
        message = await (self._receive() if self._due is None else self._receive_until(self._due))
        self._whole = not message.get("more_body", False)
        self._count(len(message.get("body", b"")))
        return message

    async def _receive_until(self, due: float) -> Message:
        try:
            async with asyncio.timeout_at(due):
                return await self._receive()
        except TimeoutError:
            why = f"the body has not come within {self._limits.seconds:g} s"
            raise BodyRefused(408, "body_too_slow", why, {"connection": "close"}) from None

    def _count(self, size: int) -> None:
        limits = self._limits
        self._received += size
        if self._received > limits.most_bytes:
            self.release()
            raise limits.refuse_too_large()
        more = max(0, self._received - limits.free_bytes) - self._counted
        if more and not limits.shares.acquire(self._holder, more):
            self.release()
            raise BodyRefused(429, "too_many_bytes", limits.refusal, limits.refusal_headers)
        self._counted += more

    def shrink(self, size: int) -> None:
        """Give back what bytes took that have been read and are not kept: they count for no limit any more."""
        self._received -= size
        less = self._counted - max(0, self._received - self._limits.free_bytes)
        if less > 0:
            self._limits.shares.release(self._holder, less)
            self._counted -= less

    def release(self) -> None:
        """Give back what the body took. A second time it does nothing."""
        if self._counted:
            self._limits.shares.release(self._holder, self._counted)
            self._counted = 0


def shrink_body(scope: Scope, size: int) -> None:
    """Give back what a part of a request's body took that its reader has thrown away."""
    body: LimitedBody | None = scope.get(_KEY)
    if body is not None:
        body.shrink(size)


def release_body(scope: Scope) -> None:
    """Give back what the body of a request took, before its answer: its bytes are not needed any more."""
    body: LimitedBody | None = scope.get(_KEY)
    if body is not None:
        body.release()
