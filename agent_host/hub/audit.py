"""What happened on the hub, for operators: stored, and live."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic_core import to_json

from agent_common.clock import Clock

from .store import AuditRow, HubStore, Submission

Listener = Callable[[AuditRow], None]


class HubAudit:
    """Records what happened, and tells those who listen."""

    def __init__(self, store: HubStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._listeners: list[Listener] = []

    def record(self, kind: str, *, agent_id: str | None = None, session_id: str | None = None, **detail: Any) -> None:
        """Record something. It is written soon; nothing depends on when."""
        self._store.submit(Submission((self.note(kind, agent_id=agent_id, session_id=session_id, **detail),)))

    def note(self, kind: str, *, agent_id: str | None = None, session_id: str | None = None, **detail: Any) -> AuditRow:
        """Tell those who listen. Returns the row, to be written with what happened."""
        row = AuditRow(self._clock.now_ms(), kind, agent_id, session_id, to_json(detail).decode())
        for listener in tuple(self._listeners):
            listener(row)
        return row

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with each new row; return a function that ends it. It must not wait or raise."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)
