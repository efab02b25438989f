"""The audit trail: a row for every frame and every decision. Rows are added and never changed."""

from __future__ import annotations

import hashlib

import structlog

from ..clock import Clock
from .journal import Journal
from .metrics import Direction, Metrics

log = structlog.get_logger(__name__)
_MOST_DETAIL = 2000


class Trail:
    """Writes behind the frames' backs: in order, and about a twentieth of a second later at most."""

    def __init__(self, journal: Journal, metrics: Metrics, clock: Clock, *, content: bool) -> None:
        self._journal, self._metrics, self._clock, self._content = journal, metrics, clock, content

    def frame(
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
    ) -> None:
        """A frame that came (`in`) or goes (`out`); `line` is without its end."""
        size, digest = len(line), hashlib.sha256(line).hexdigest()
        self._metrics.frame(direction, size + 1)
        content = _text(line.decode("utf-8", "replace")) if self._content else None
        now = self._clock.now_ms()
        row = now, workspace, epoch, connection, direction, kind, request_id, audit_ref, size, digest, None, content
        self._journal.trail(row)

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
        now, detail = self._clock.now_ms(), _text(detail)[:_MOST_DETAIL] if detail else None
        self._journal.trail((now, workspace, epoch, connection, "host", kind, request_id, None, 0, None, detail, None))

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
        """What an operator should look at."""
        self._metrics.count("alarms", code)
        log.warning("listener_alarm", code=code, workspace=workspace, request_id=request_id, detail=detail[:300])
        self.event(
            f"alarm.{code}", detail, workspace=workspace, epoch=epoch, connection=connection, request_id=request_id
        )


def _text(text: str) -> str:
    """As every database takes it."""
    return text.replace("\0", "\\0")
