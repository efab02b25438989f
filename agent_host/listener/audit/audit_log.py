"""The audit trail: a row for every frame and every decision. Rows are added and never changed."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import structlog

from agent_common.clock import Clock

from ..ledger.ledger_writer import LedgerWriter
from ..ledger.sql import Values
from ..metrics import Direction, Metrics
from ..timers import Timers
from .tally import RepeatCounter

log = structlog.get_logger(__name__)
_MOST_DETAIL = 2000


@dataclass(frozen=True, slots=True)
class _Alarm:
    detail: str
    epoch: int
    connection: int
    request_id: str | None


class AuditLog:
    """Writes behind the frames' backs: in order, and about a twentieth of a second later at most."""

    def __init__(
        self, ledger_writer: LedgerWriter, metrics: Metrics, clock: Clock, timers: Timers, *, content: bool
    ) -> None:
        self._ledger_writer, self._metrics, self._clock, self._content = ledger_writer, metrics, clock, content
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
    ) -> Values:
        """Count a frame that came (`in`) or goes (`out`), and return its row for `write`. `line` is without its end."""
        size, digest = len(line), hashlib.sha256(line).hexdigest()
        self._metrics.count_frame(direction, size + 1)
        content = _without_nul(line.decode("utf-8", "replace")) if self._content else None
        now = self._clock.now_ms()
        return now, workspace, epoch, connection, direction, kind, request_id, audit_ref, size, digest, None, content

    def write(self, row: Values) -> None:
        """A row that `make_row` has made."""
        self._ledger_writer.append_audit(row)

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
        """What the host decides or notices."""
        now, detail = self._clock.now_ms(), _without_nul(detail)[:_MOST_DETAIL] if detail else None
        self._ledger_writer.append_audit(
            (now, workspace, epoch, connection, "host", kind, request_id, None, 0, None, detail, None)
        )

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
        """What an operator should look at. Of a kind and workspace the first of a minute is written at once, and the
        others as one row with their number: what an agent or a stranger repeats must not fill the disk."""
        self._metrics.count("alarms", code)
        alarm = _Alarm(detail[:_MOST_DETAIL], epoch, connection, request_id)
        if self._alarms.add((code, workspace), alarm):
            self._write_alarm(code, workspace, alarm)

    def flush(self) -> None:
        """Write what was only counted so far."""
        self._alarms.flush()

    def _write_repeated(self, key: tuple[str, str | None], more: int, last: _Alarm) -> None:
        detail = f"{more} more within a minute; the last: {last.detail}"
        self._write_alarm(*key, _Alarm(detail, last.epoch, last.connection, last.request_id))

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
    """As every database takes it."""
    return text.replace("\0", "\\0")
