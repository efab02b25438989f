"""One open request: its row in the ledger, and its state in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, NamedTuple

from agent_common.protocol.work import Progress, WorkRequest, WorkResult

from ...errors import InvalidRequest
from ..timers import Timer, Timers
from .states import ACTIVE, ShownStatus, Status, check_transition, public_status

_COLUMN = {"column": True, "changes": False}
"""Marks a field that is a column of the row."""
_CHANGING = {"column": True, "changes": True}
"""Marks a column that changes while the row is active."""
Watcher = Callable[["OpenWork", "Progress | None"], None]
"""Called with None when the record changes, and with each progress report."""


@dataclass(slots=True, eq=False)
class OpenWork:
    """A row of the ledger while the request is open."""

    request: WorkRequest = field(metadata=_COLUMN)
    workspace: str = field(metadata=_COLUMN)
    fingerprint: str = field(metadata=_COLUMN)
    pinned: bool = field(metadata=_COLUMN)
    """Whether the caller has named the version of the constraints."""
    submitted_at: int = field(metadata=_COLUMN)
    expires_at: int = field(metadata=_COLUMN)
    """Epoch milliseconds, like `submitted_at`."""
    status: Status = field(default="queued", metadata=_CHANGING)
    attempts: int = field(default=0, metadata=_CHANGING)
    deliveries: int = field(default=0, metadata=_CHANGING)
    epoch: int = field(default=0, metadata=_CHANGING)
    version: int | None = field(default=None, metadata=_CHANGING)
    """The constraints' version in the request as last sent, by which the guest knows it; None before it was sent."""
    not_before: int | None = field(default=None, metadata=_CHANGING)
    """Epoch milliseconds."""
    cancel_reason: str | None = field(default=None, metadata=_CHANGING)
    error: str | None = field(default=None, metadata=_CHANGING)
    result: WorkResult | None = field(default=None, metadata=_CHANGING)
    updated_at: int = field(default=0, metadata=_CHANGING)
    finished_at: int | None = field(default=None, metadata=_CHANGING)

    # Not in the row: a new process of the host determines these again.
    expires_monotonic: float | None = None
    """`expires_at` on the monotonic clock, in seconds; None before it was first needed."""
    lost: bool = False
    """Whether the connection broke; the next attachment reports the state of the work."""
    begun: bool = False
    """Whether the guest has accepted this attempt."""
    next_is_attempt: bool = True
    """Whether the next delivery counts as a further attempt."""
    waits_at_agent: bool | None = None
    """Whether it waits in a queue of the agent that has accepted it; None: the agent has not said that it does."""
    at_work_since: int | None = None
    """Epoch milliseconds at which the agent began it, or came back with it."""
    overdue: bool = False
    """Whether this attempt was begun and given up: then the next one is counted, also if the guest still runs this."""
    refused: bool = False
    """Whether the ledger refused the work."""
    recorded: bool = False
    """Whether the end of the work is on disk."""
    timer: Timer | None = None
    watchers: list[Watcher] = field(default_factory=list[Watcher])
    id: str = field(init=False)
    """The request's id."""

    def __post_init__(self) -> None:
        self.id = self.request.request_id

    @property
    def active(self) -> bool:
        return self.status in ACTIVE

    def seconds_at_work(self, now: int) -> float:
        """Return for how long the agent has been at it; 0 while it is not."""
        since = self.at_work_since if self.status == "accepted" else None
        return max(0, now - since) / 1000 if since is not None else 0.0

    @property
    def size(self) -> int:
        return len(self.request.content) + 1024

    def set_status(self, status: Status, now: int) -> None:
        """Set the status and disarm the deadline. Raises IllegalTransition."""
        check_transition(self.status, status)
        self.status = status
        self.updated_at = now
        self.disarm()

    def disarm(self) -> None:
        if self.timer is not None:
            self.timer.cancel()

    def arm(self, timers: Timers, seconds: float, call: Callable[[], None]) -> None:
        """Set the work's only deadline in place of the previous one."""
        if self.timer is None:
            self.timer = timers.call_later(max(0.0, seconds), call)
        else:
            self.timer.reschedule(max(0.0, seconds), call)

    def report_changes(self, call: Callable[[OpenWork], None]) -> None:
        """Call after each change of the status, as callers see it, or of the number of attempts."""
        known = public_status(self.status), self.attempts

        def watch(_: OpenWork, progress: Progress | None) -> None:
            nonlocal known
            if progress is None and (now := (public_status(self.status), self.attempts)) != known:
                known = now
                call(self)

        self.watchers.append(watch)

    def notify(self, progress: Progress | None = None) -> None:
        """Call the watchers."""
        for watcher in tuple(self.watchers):
            watcher(self, progress)

    def audit_ref(self) -> str:
        """Return the text that joins the records of both ends, with the attempt's number, which has no field."""
        ref = self.request.audit_ref
        return ref if self.attempts < 2 else f"{ref[:480]};attempt={self.attempts}"

    def outgoing(self, version: int) -> WorkRequest:
        """Return the request as it is sent now."""
        return self.request.model_copy(update={"constraints_version": version, "audit_ref": self.audit_ref()})

    @property
    def request_json(self) -> str:
        return self.request.model_dump_json(exclude_none=True)

    @property
    def result_json(self) -> str | None:
        return self.result.model_dump_json(exclude_none=True) if self.result is not None else None

    def changed_values(self) -> tuple[Any, ...]:
        """Return a value for each of CHANGING_COLUMNS."""
        return _read_changing(self)

    def row(self) -> tuple[Any, ...]:
        """Return a value for each of COLUMNS."""
        return _read_row(self)

    def to_record(self) -> LedgerRecord:
        return LedgerRecord(
            self.id, self.workspace, public_status(self.status), self.attempts, self.result, self.error,
            self.submitted_at, self.finished_at,
        )  # fmt: skip


COLUMNS = ("request_id", *(one.name for one in fields(OpenWork) if one.metadata.get("column")))
"""Columns of a new row."""
CHANGING_COLUMNS = tuple(one.name for one in fields(OpenWork) if one.metadata.get("changes"))
"""Columns of the row that change while it is active."""
_STORED_AS = {"request_id": "id", "request": "request_json", "result": "result_json"}
"""The attributes behind the columns that have another name or form in the row."""
_read_row = attrgetter(*(_STORED_AS.get(name, name) for name in COLUMNS))
_read_changing = attrgetter(*(_STORED_AS.get(name, name) for name in CHANGING_COLUMNS))


class LedgerRecord(NamedTuple):
    """A request as its caller sees it."""

    request_id: str
    workspace: str
    status: ShownStatus
    attempts: int
    result: WorkResult | None
    error: str | None
    """Why there is no result: a code, a colon and a text."""
    submitted_at: int
    """Epoch milliseconds."""
    finished_at: int | None

    @property
    def is_finished(self) -> bool:
        return self.status not in ("queued", "dispatched", "accepted")


def check_loose_request(request: WorkRequest) -> None:
    """Raise InvalidRequest for limits that only the agent can enforce and the loose dialect has no field for."""
    bounds = request.bounds
    scope = request.principal.authorization_scope
    names = [
        name for name in ("max_tokens", "max_tool_calls") if bounds is not None and getattr(bounds, name) is not None
    ]
    found = [*(f"bounds.{name}" for name in names), *(["principal.authorization_scope"] if scope else [])]
    if found:
        why = "cannot be sent to an agent that speaks the loose dialect; leave it out"
        raise InvalidRequest(f"{found[0]} {why}", faults=[(f"request.{name}", why) for name in found])


def fingerprint(request: WorkRequest, workspace: str, *, pinned: bool) -> str:
    """Return the SHA-256 of the fields that distinguish work, without a version that the host has filled in."""
    same = {"principal", "content", "content_kind", "bounds"} | ({"constraints_version"} if pinned else set[str]())
    serialized = request.__pydantic_serializer__.to_json(request, include=same, exclude_none=True)
    return hashlib.sha256(b"%b\n%b" % (workspace.encode(), serialized)).hexdigest()
