"""The bytes that the bodies of requests hold until they are parsed or stored: one budget for all of them.

Each body has a limit of its own, and so has the number of connections, but the product of both is more than the memory
of a small guest.
"""

from __future__ import annotations

from starlette.types import Scope

BODY_LIMIT = 8 * 1024 * 1024
"""Bytes of one body."""
MAX_TOTAL_BYTES = 8 * BODY_LIMIT
"""Of all bodies at once, without the free bytes of each."""
FREE_BYTES = 16 * 1024
"""Of each body that are not counted, so that a small one is never refused because of large ones."""
_KEY = "agent_runtime.body"


class BodyTooLarge(Exception):
    """The body went over its limit while it was read."""


class BodyBudgetExceeded(Exception):
    """The bodies of all requests went over their budget while this one was read."""


class BodyBudget:
    """Bytes that the bodies of all requests take. They are counted as they come: a length that was only declared takes
    nothing from others. A body that finds no room is refused and never waits, so no two can wait for each other."""

    def __init__(self, max_bytes: int = MAX_TOTAL_BYTES) -> None:
        self._max_bytes = max_bytes
        self.held_bytes = 0

    def enter(self, scope: Scope) -> HeldBody:
        """The body of a request that begins; `release_body` finds it by the scope."""
        scope[_KEY] = body = HeldBody(self)
        return body

    def reserve(self, size: int) -> None:
        """Raises NoRoom."""
        if size and self.held_bytes + size > self._max_bytes:
            raise BodyBudgetExceeded
        self.held_bytes += size


class HeldBody:
    """The body of one request."""

    def __init__(self, budget: BodyBudget) -> None:
        self._budget = budget
        self._received = self._counted = 0

    def add_received(self, size: int) -> None:
        """Count a piece that has come. Raises BodyTooLarge, NoRoom."""
        self._received += size
        if self._received > BODY_LIMIT:
            raise BodyTooLarge
        more = max(0, self._received - FREE_BYTES) - self._counted
        self._budget.reserve(more)
        self._counted += more

    def release(self) -> None:
        """Give back what the body took. A second time it does nothing."""
        self._budget.held_bytes -= self._counted
        self._counted = 0


def release_body(scope: Scope) -> None:
    """Give back what the body of a request took, before its answer: its bytes are not needed any more."""
    body: HeldBody | None = scope.get(_KEY)
    if body is not None:
        body.release()
