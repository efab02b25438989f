"""The audit trail: rows for the frames of agents and for every decision of the host. Rows are never changed."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Protocol

import structlog

from agent_common.clock import Clock

from ...database import AGENT_EVENTS, BAD_LINE
from ..metrics import Direction, Metrics
from ..timers import Timers
from .repeat_counter import RepeatCounter
from .row_shares import AuditRow, RowShares

log = structlog.get_logger(__name__)
_MOST_DETAIL = 2000


class AuditWriter(Protocol):
    """Writes rows of the trail to the database. `LedgerWriter` implements it."""

    def append_audit(self, row: AuditRow) -> None:
        """Write the row soon, in order."""
        ...

    def is_behind(self, workspace: str) -> bool:
        """Whether so many rows of the workspace wait that its agent should be read no further."""
        ...


@dataclass(frozen=True, slots=True)
class _Alarm:
    detail: str
    epoch: int
    connection: int
    request_id: str | None


class AuditLog:
    """Makes the rows of the audit trail, and raises alarms. A row is written within about 50 ms of its frame."""

    def __init__(self, *, writer: AuditWriter, metrics: Metrics, clock: Clock, timers: Timers, content: bool) -> None:
        """`content`: store the text of frames besides their hash."""
        self._writer = writer
        self._metrics = metrics
        self._clock = clock
        self._content = content
        self._shares = RowShares(timers, writer.append_audit)
        self._alarms: RepeatCounter[tuple[str, str | None], _Alarm] = RepeatCounter(timers, self._write_repeated)

    def make_row(
        self,
        direction: Direction,
        kind: str,
        line: bytes,
        *,
        workspace: str | None,
        epoch: int,
        connection: int,
        request_id: str | None = None,
        audit_ref: str | None = None,
    ) -> AuditRow:
        """Count a frame from (`in`) or to (`out`) an agent, and return its row for `write`. `line` has no line end."""
        size = len(line)
        digest = hashlib.sha256(line).hexdigest()
        self._metrics.count_frame(direction, size + 1)
        content = _without_nul(line.decode("utf-8", "replace")) if self._content else None
        now = self._clock.now_ms()
        return now, workspace, epoch, connection, direction, kind, request_id, audit_ref, size, digest, None, content

    def write(self, row: AuditRow) -> None:
        """Append a row made by `make_row`; one of too many in a minute is only counted."""
        self._shares.add(row)

    def is_behind(self, workspace: str) -> bool:
        """Whether reading from the workspace's agent should wait until more of its rows are written."""
        return self._writer.is_behind(workspace)

    def event(
        self,
        kind: str,
        detail: str | None = None,
        *,
        workspace: str | None = None,
        epoch: int = 0,
        connection: int = 0,
        request_id: str | None = None,
    ) -> None:
        """Append a row for something that the host decides or notices."""
        now = self._clock.now_ms()
        detail = _without_nul(detail)[:_MOST_DETAIL] if detail else None
        row = (now, workspace, epoch, connection, "host", kind, request_id, None, 0, None, detail, None)
        if kind.startswith(BAD_LINE) or kind in AGENT_EVENTS:
            self._shares.add(row)
        else:
            self._writer.append_audit(row)

    def alarm(
        self,
        code: str,
        detail: str,
        *,
        workspace: str | None = None,
        epoch: int = 0,
        connection: int = 0,
        request_id: str | None = None,
    ) -> None:
        """Report something that an operator should look at.

        The first alarm of a code and workspace in a minute is written at once; repetitions become one row with their
        count, so that a peer cannot fill the disk.
        """
        self._metrics.count("alarms", code)
        alarm = _Alarm(detail[:_MOST_DETAIL], epoch, connection, request_id)
        if self._alarms.add((code, workspace), alarm):
            self._write_alarm(code, workspace, alarm)

    def flush(self) -> None:
        """Write the alarms and rows that have only been counted so far."""
        self._alarms.flush()
        self._shares.flush()

    def _write_repeated(self, key: tuple[str, str | None], more: int, last: _Alarm) -> None:
        code, workspace = key
        detail = f"{more} more within a minute; the last: {last.detail}"
        self._write_alarm(code, workspace, _Alarm(detail, last.epoch, last.connection, last.request_id))

    def _write_alarm(self, code: str, workspace: str | None, alarm: _Alarm) -> None:
        log.warning(
            "listener_alarm", code=code, workspace=workspace, request_id=alarm.request_id, detail=alarm.detail[:300]
        )
        self.event(
            f"alarm.{code}",
            alarm.detail,
            workspace=workspace,
            epoch=alarm.epoch,
            connection=alarm.connection,
            request_id=alarm.request_id,
        )


def _without_nul(text: str) -> str:
    """Escape NUL characters, which not every database stores."""
    return text.replace("\0", "\\0")
