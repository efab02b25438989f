"""An envelope as work of the loop: nobody can be asked, and a crash does not end its turn."""

from __future__ import annotations

import sqlite3
from typing import Any

from ..loop import ExternalWork, Turn, TurnLimits, TurnOutcome
from ..sessions import TurnRow, history

SOURCE = "hub"


class _NoRecord:
    """Implements WorkRecorder. The session has the envelope's id as that of its message, which is the record."""

    def record_admission(self, connection: sqlite3.Connection, turn: Turn, now: int) -> None:
        return

    def record_end(self, connection: sqlite3.Connection, turn: Turn, now: int) -> None:
        return


def _same(limits: TurnLimits) -> TurnLimits:
    return limits


def envelope_work(envelope_id: str) -> ExternalWork:
    """Return the work that an envelope asks for."""
    return ExternalWork(SOURCE, envelope_id, _NoRecord(), _same)


class HubWork:
    """Implements WorkStore of the loop."""

    def load_external_work(self, connection: sqlite3.Connection, turn: TurnRow) -> ExternalWork | None:
        message = history.message(connection, turn.message_id)
        trigger: dict[str, Any] = message.metadata.get("trigger", {}) if message is not None else {}
        return envelope_work(trigger["delivery_id"]) if trigger.get("source") == SOURCE else None

    def record_interruption(
        self, connection: sqlite3.Connection, turn: TurnRow, outcome: TurnOutcome, now: int
    ) -> None:
        return
