"""The states of a request in the host's ledger, and the allowed transitions. Pure: no database, clock or sockets."""

from __future__ import annotations

from typing import Literal

Status = Literal[
    "queued", "dispatched", "accepted", "retry_wait", "resulted", "delivered", "dead", "cancelled", "expired"
]
ShownStatus = Literal["queued", "dispatched", "accepted", "resulted", "dead", "cancelled", "expired"]
FinalStatus = Literal["resulted", "dead", "cancelled", "expired"]

_FINAL: frozenset[Status] = frozenset({"resulted", "dead", "cancelled", "expired"})
TRANSITIONS: dict[Status, frozenset[Status]] = {
    "queued": frozenset({"dispatched", "dead", "cancelled", "expired"}),
    # Back to queued, or to its wait: the agent stopped taking work before the request was sent.
    "dispatched": frozenset({"queued", "accepted", "retry_wait", *_FINAL}),
    # Accepted again: another attachment of the same agent continues it.
    "accepted": frozenset({"accepted", "retry_wait", *_FINAL}),
    "retry_wait": frozenset({"dispatched", "accepted", *_FINAL}),
    "resulted": frozenset({"delivered"}),
    "delivered": frozenset(),
    "dead": frozenset(),
    "cancelled": frozenset(),
    "expired": frozenset(),
}
ACTIVE: frozenset[Status] = frozenset({"queued", "dispatched", "accepted", "retry_wait"})
SENT: frozenset[Status] = frozenset({"dispatched", "accepted"})


class IllegalTransition(AssertionError):
    """The ledger was about to record an impossible transition, which is an internal error."""


def check_transition(before: Status, after: Status) -> None:
    """Raise IllegalTransition if the transition is not allowed."""
    if after not in TRANSITIONS[before]:
        raise IllegalTransition(f"a request that is {before} cannot become {after}")


def public_status(status: Status) -> ShownStatus:
    """Return the status as callers see it, which hides retries and whether the result was read."""
    if status == "retry_wait":
        return "queued"
    return "resulted" if status == "delivered" else status
