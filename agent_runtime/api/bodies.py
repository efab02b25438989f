"""One budget for the bytes of all request bodies until they are parsed or stored.

Each body and the number of connections are limited, but the product of both limits exceeds the memory of a small guest.
"""

from __future__ import annotations

from starlette.types import Scope

BODY_LIMIT = 8 * 1024 * 1024
"""Maximum bytes of one body."""
MAX_TOTAL_BYTES = 8 * BODY_LIMIT
"""Maximum bytes of all bodies together, not counting FREE_BYTES of each."""
FREE_BYTES = 16 * 1024
"""Bytes of each body that are not counted, so that a small one is never refused because of large ones."""
_KEY = "agent_runtime.body"


class BodyTooLarge(Exception):
    """Raised if a body exceeds its limit while it is read."""


class BodyBudgetExceeded(Exception):
    """Raised if all bodies together exceed their budget while one of them is read."""


class BodyBudget:
    """The bytes of all request bodies. They are counted on arrival: a merely declared length takes nothing from others.
    A body that does not fit is refused and never waits, so there can be no deadlock."""

    def __init__(self, max_bytes: int = MAX_TOTAL_BYTES) -> None:
        self._max_bytes = max_bytes
        self.held_bytes = 0

    def enter(self, scope: Scope) -> HeldBody:
        """Start counting the body of a request; `release_body` finds it by the scope."""
        scope[_KEY] = body = HeldBody(self)
        return body

    def reserve(self, size: int) -> None:
        """Raise BodyBudgetExceeded if there is no room for `size` more bytes."""
        if size and self.held_bytes + size > self._max_bytes:
            raise BodyBudgetExceeded
        self.held_bytes += size


class HeldBody:
    """The body of one request."""

    def __init__(self, budget: BodyBudget) -> None:
        self._budget = budget
        self._received = self._counted = 0

    def add_received(self, size: int) -> None:
        """Count a received piece. Raises BodyTooLarge, BodyBudgetExceeded."""
        self._received += size
        if self._received > BODY_LIMIT:
            raise BodyTooLarge
        more = max(0, self._received - FREE_BYTES) - self._counted
        self._budget.reserve(more)
        self._counted += more

    def release(self) -> None:
        """Return the body's bytes to the budget. Idempotent."""
        self._budget.held_bytes -= self._counted
        self._counted = 0


def release_body(scope: Scope) -> None:
    """Return the bytes of a request's body to the budget as soon as they are no longer needed, before the answer."""
    body: HeldBody | None = scope.get(_KEY)
    if body is not None:
        body.release()
