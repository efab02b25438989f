"""Work whose record is the message of its turn: nobody can be asked, and a crash does not end it.

The message's id is that of the work, so whoever sends it again finds the turn that it has started.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Any

from ...sessions import TurnRow, history
from ..core.turn_state import ExternalWork, Turn, WorkRecorder
from ..limits.outcome import TurnOutcome
from ..limits.turn_limits import TurnLimits


class NoRecord:
    """Implements WorkRecorder for work that leaves no other record."""

    def record_admission(self, connection: sqlite3.Connection, turn: Turn, now: int) -> None:
        return

    def record_end(self, connection: sqlite3.Connection, turn: Turn, now: int) -> None:
        return


@dataclass(frozen=True, slots=True)
class MessageWork:
    """Implements WorkStore for the messages that come through one entry point."""

    source: str
    """The entry point, which is the `trigger.source` of such messages."""

    def work(self, work_id: str, recorder: WorkRecorder | None = None) -> ExternalWork:
        """Return the work that a message asks for."""
        return ExternalWork(self.source, work_id, recorder or NoRecord(), _same)

    def load_external_work(self, connection: sqlite3.Connection, turn: TurnRow) -> ExternalWork | None:
        message = history.message(connection, turn.message_id)
        trigger: dict[str, Any] = message.metadata.get("trigger", {}) if message is not None else {}
        return self.work(trigger["delivery_id"]) if trigger.get("source") == self.source else None

    def record_interruption(
        self, connection: sqlite3.Connection, turn: TurnRow, outcome: TurnOutcome, now: int
    ) -> None:
        return


def _same(limits: TurnLimits) -> TurnLimits:
    return limits
