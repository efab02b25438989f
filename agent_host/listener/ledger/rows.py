"""Read rows of the ledger as objects."""

from __future__ import annotations

from typing import Any

from sqlalchemy import RowMapping

from agent_common.protocol.work import WorkRequest, WorkResult

from .states import public_status
from .work import LedgerRecord, OpenWork

_LOADED_COLUMNS = (
    "workspace",
    "fingerprint",
    "pinned",
    "submitted_at",
    "expires_at",
    "status",
    "attempts",
    "deliveries",
    "epoch",
    "version",
    "not_before",
    "cancel_reason",
    "error",
    "updated_at",
)
"""Columns of an open row that are fields of OpenWork."""


def work_from_row(row: RowMapping) -> OpenWork:
    """Return the work of an open row."""
    work = OpenWork(WorkRequest.model_validate_json(row["request"]), **{name: row[name] for name in _LOADED_COLUMNS})
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
