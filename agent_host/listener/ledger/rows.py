"""Read rows of the ledger as objects."""

from __future__ import annotations

from typing import Any

from sqlalchemy import RowMapping

from agent_common.protocol.work import WorkRequest, WorkResult

from .states import public_status
from .work import COLUMNS, LedgerRecord, OpenWork


def work_from_row(row: RowMapping) -> OpenWork:
    """Return the work of an open row, which has no result."""
    values = {name: row[name] for name in COLUMNS if name not in ("request_id", "request")}
    work = OpenWork(WorkRequest.model_validate_json(row["request"]), **values)
    work.next_is_attempt = work.attempts == 0
    return work


def record_from_row(row: RowMapping | dict[str, Any]) -> LedgerRecord:
    """Return the record of a row."""
    result = row["result"]
    return LedgerRecord(
        row["request_id"],
        row["workspace"],
        public_status(row["status"]),
        row["attempts"],
        WorkResult.model_validate_json(result) if result else None,
        row["error"],
        row["submitted_at"],
        row["finished_at"],
    )
