"""Parse lines into frames, name the kinds of frames, and count bad lines."""

from __future__ import annotations

from collections import deque
from functools import cache
from typing import Any

from pydantic import BaseModel

from agent_common.clock import Clock
from agent_common.protocol.work import (
    MAX_BAD_LINES,
    ConstraintAck,
    Constraints,
    Control,
    FrameFault,
    IdentityRevision,
    LifecycleSignal,
    TaskAck,
    TaskReport,
    UnknownControl,
    WorkFrame,
    WorkRequest,
    WorkResult,
    decode,
    read_frame,
    read_loose_result,
    read_loose_signal,
    to_rfc3339,
)

from ..channels.channel import WorkspaceChannel
from ..ledger.ledger import WorkLedger

_MINUTE = 60.0
_KINDS: dict[type, str] = {
    WorkResult: "result",
    WorkRequest: "request",
    Constraints: "constraints",
    ConstraintAck: "constraint_ack",
    IdentityRevision: "identity",
}


class BadLines:
    """Counts the bad lines of the last minute."""

    __slots__ = ("_clock", "_times")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._times: deque[float] | None = None  # most agents never send one

    def add_and_check(self) -> bool:
        """Count one more bad line, and return whether there are too many now."""
        now = self._clock.monotonic()
        if self._times is None:
            self._times = deque()
        self._times.append(now)
        while self._times[0] < now - _MINUTE:
            self._times.popleft()
        return len(self._times) > MAX_BAD_LINES


def kind_of(frame: Control | BaseModel | UnknownControl) -> str:
    """Return the name that the frame's kind has in the audit trail."""
    if isinstance(frame, LifecycleSignal):
        return f"signal.{frame.signal}"
    if isinstance(frame, (Control, UnknownControl)):
        return frame.ctl[:40]
    return _KINDS[type(frame)]


def refs_of(frame: Control | BaseModel | UnknownControl) -> tuple[str | None, str | None]:
    """Return `request_id` and `audit_ref` of a frame, each None if frames of its kind have no such field. For a frame
    about a task, the task's id is the `request_id`."""
    if isinstance(frame, (TaskReport, TaskAck)):
        return frame.task_id, None
    untyped: Any = frame
    request_id, audit_ref = _ref_fields(type(frame))
    return untyped.request_id if request_id else None, untyped.audit_ref if audit_ref else None


@cache
def _ref_fields(kind: type) -> tuple[bool, bool]:
    """Whether frames of this kind have the two fields. Cached, because pydantic is slow on missing attributes."""
    fields = kind.model_fields if issubclass(kind, BaseModel) else {}
    return "request_id" in fields, "audit_ref" in fields


class FrameParser:
    """Parses lines into frames, in the dialect of their workspace."""

    def __init__(self, *, ledger: WorkLedger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock

    def parse(self, channel: WorkspaceChannel | None, line: bytes | FrameFault) -> WorkFrame:
        """Parse a line. `channel` is None until the agent has sent `ready`. Raises FrameFault if it is not a frame."""
        if isinstance(line, FrameFault):
            raise line
        value = decode(line)
        if channel is None or not channel.loose or "ctl" in value:
            return read_frame(value)
        return self._parse_loose(channel, value)

    def _parse_loose(self, channel: WorkspaceChannel, value: dict[str, Any]) -> WorkFrame:
        now = to_rfc3339(self._clock.now_ms())
        if "signal" in value:
            return read_loose_signal(value, now=now, agent_id=channel.workspace)
        if "request_id" in value and "principal" not in value and ("ok" in value or "status" in value):
            work = self._ledger.active.get(str(value["request_id"]))
            audit_ref = work.audit_ref() if work else str(value["request_id"])[:500]
            return read_loose_result(value, now=now, audit_ref=audit_ref)
        return read_frame(value)
