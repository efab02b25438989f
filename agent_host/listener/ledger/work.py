"""One request that is not over yet: its row in the ledger, and its state in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from agent_common.protocol.work import Progress, WorkRequest, WorkResult

from ...errors import InvalidRequest
from ..timers import Timer, Timers
from .states import ACTIVE, ShownStatus, Status, check_transition, public_status

CHANGING_COLUMNS = (
    "status", "attempts", "deliveries", "epoch", "version", "not_before",
    "cancel_reason", "error", "result", "updated_at", "finished_at",
)  # fmt: skip
"""Columns of the row that change while it is active."""
COLUMNS = (
    "request_id", "workspace", "fingerprint", "request", "pinned", "status", "attempts", "deliveries", "epoch",
    "version", "not_before", "expires_at", "cancel_reason", "error", "result", "submitted_at", "updated_at",
    "finished_at",
)  # fmt: skip
"""Columns of a new row, in the order of the table."""
Watcher = Callable[["OpenWork", "Progress | None"], None]
"""Called with None when the record changes, and with each progress."""


@dataclass(slots=True, eq=False)
class OpenWork:
    """A row of the ledger while it is active."""

    request: WorkRequest
    workspace: str
    fingerprint: str
    pinned: bool
    """Whether the caller has named the version of the constraints."""
    submitted_at: int
    expires_at: int
    """Epoch milliseconds, like the one above."""
    status: Status = "queued"
    attempts: int = 0
    deliveries: int = 0
    epoch: int = 0
    version: int | None = None
    """Of the constraints, as the request was sent last; the guest knows the request by it. None before it was sent."""
    not_before: int | None = None
    """Epoch milliseconds."""
    cancel_reason: str | None = None
    error: str | None = None
    result: WorkResult | None = None
    updated_at: int = 0
    finished_at: int | None = None

    # Not in the row: a new process of the host finds these out again.
    expires_monotonic: float | None = None
    """`expires_at` on the monotonic clock, in seconds; None before it was first needed."""
    lost: bool = False
    """The connection broke; the next attachment tells what has become of the work."""
    begun: bool = False
    """The guest has accepted this attempt."""
    next_is_attempt: bool = True
    """The next delivery counts as a further attempt."""
    abandoned: bool = False
    """This attempt was given up: the guest must not continue it."""
    refused: bool = False
    """The ledger did not take the work."""
    recorded: bool = False
    """The end of the work is on the disk."""
    timer: Timer | None = None
    watchers: list[Watcher] = field(default_factory=list[Watcher])
    id: str = field(init=False)
    """Of the request."""

    def __post_init__(self) -> None:
        self.id = self.request.request_id

    @property
    def active(self) -> bool:
        return self.status in ACTIVE

    @property
    def size(self) -> int:
        return len(self.request.content) + 1024

    def set_status(self, status: Status, now: int) -> None:
        """Raises IllegalTransition."""
        check_transition(self.status, status)
        self.status, self.updated_at = status, now
        self.disarm()

    def disarm(self) -> None:
        if self.timer is not None:
            self.timer.cancel()

    def arm(self, timers: Timers, seconds: float, call: Callable[[], None]) -> None:
        """Set the one deadline that the work has; it replaces the one before."""
        if self.timer is None:
            self.timer = timers.call_later(max(0.0, seconds), call)
        else:
            self.timer.reschedule(max(0.0, seconds), call)

    def notify(self, progress: Progress | None = None) -> None:
        """Call the watchers."""
        for watcher in tuple(self.watchers):
            watcher(self, progress)

    def audit_ref(self) -> str:
        """The text that joins the records of both ends, with the attempt's number, for which there is no field."""
        ref = self.request.audit_ref
        return ref if self.attempts < 2 else f"{ref[:480]};attempt={self.attempts}"

    def outgoing(self, version: int) -> WorkRequest:
        """The request as it is sent now."""
        return self.request.model_copy(update={"constraints_version": version, "audit_ref": self.audit_ref()})

    def changed_values(self) -> tuple[Any, ...]:
        """A value for each of CHANGING_COLUMNS."""
        return (
            self.status, self.attempts, self.deliveries, self.epoch, self.version, self.not_before,
            self.cancel_reason, self.error, _json(self.result), self.updated_at, self.finished_at,
        )  # fmt: skip

    def row(self) -> tuple[Any, ...]:
        """A value for each of COLUMNS."""
        return (
            self.id, self.workspace, self.fingerprint, _json(self.request), self.pinned, self.status, self.attempts,
            self.deliveries, self.epoch, self.version, self.not_before, self.expires_at, self.cancel_reason,
            self.error, _json(self.result), self.submitted_at, self.updated_at, self.finished_at,
        )  # fmt: skip

    def to_record(self) -> LedgerRecord:
        return LedgerRecord(
            self.id, self.workspace, public_status(self.status), self.attempts, self.result, self.error,
            self.submitted_at, self.finished_at,
        )  # fmt: skip


class LedgerRecord(NamedTuple):
    """A request as its caller sees it."""

    request_id: str
    workspace: str
    status: ShownStatus
    attempts: int
    result: WorkResult | None
    error: str | None
    """Why there is no result: a code, a colon and words."""
    submitted_at: int
    """Epoch milliseconds."""
    finished_at: int | None

    @property
    def is_finished(self) -> bool:
        return self.status not in ("queued", "dispatched", "accepted")


def _json(message: WorkRequest | WorkResult | None) -> str | None:
    return message.model_dump_json(exclude_none=True) if message is not None else None


def check_loose_request(request: WorkRequest) -> None:
    """Raise InvalidRequest for limits that loose requests have no field for and only the agent could keep."""
    bounds, scope = request.bounds, request.principal.authorization_scope
    names = [
        name for name in ("max_tokens", "max_tool_calls") if bounds is not None and getattr(bounds, name) is not None
    ]
    found = [*(f"bounds.{name}" for name in names), *(["principal.authorization_scope"] if scope else [])]
    if found:
        why = "cannot be told to an agent that speaks the loose dialect; leave it out"
        raise InvalidRequest(f"{found[0]} {why}", faults=[(f"request.{name}", why) for name in found])


def fingerprint(request: WorkRequest, workspace: str, *, pinned: bool) -> str:
    """SHA-256 over the fields that tell work apart, without a version that the host has filled in."""
    same = {"principal", "content", "content_kind", "bounds"} | ({"constraints_version"} if pinned else set[str]())
    serialized = request.__pydantic_serializer__.to_json(request, include=same, exclude_none=True)
    return hashlib.sha256(b"%b\n%b" % (workspace.encode(), serialized)).hexdigest()
