"""Write entries: each function reads what is there, decides, and writes, in the transaction of a BatchWriter."""

from __future__ import annotations

import secrets
from typing import Any

from sqlalchemy import Connection, Row, bindparam, select, update
from sqlalchemy.dialects import postgresql

from agent_common.protocol import MAX_LEASE_SECONDS, ChangeKind

from ..database import blackboard_entries
from ..errors import NotFound
from ..http import ALWAYS, Condition
from .changes import BoardLimits, NewChange, Writer, append_change, check_quota
from .entries import ROW_OF_KEY, read_entry, value_of
from .errors import Claimed, VersionConflict

_NO_CLAIM = {"claim_id": None, "claimed_by": None, "claimed_until": None}
_LONGEST_CLAIM_MS = round(MAX_LEASE_SECONDS * 1000) + 3_600_000
"""With an hour more, as the clocks of two hosts may differ."""
MOST_EXPIRED = 100
"""Entries that expire in one transaction."""
_WRITTEN = ("value", "size", "version", "change", "updated_at", "updated_by", "cause", "expires_at")
_INSERT = postgresql.insert(blackboard_entries)  # SQLite spells it the same way
_UPSERT = (
    _INSERT.values({name: bindparam(name) for name in ("team", "key", *_WRITTEN)})
    .on_conflict_do_update(index_elements=["team", "key"], set_={name: _INSERT.excluded[name] for name in _WRITTEN})
    .returning(blackboard_entries)
)


def put_entry(
    connection: Connection,
    writer: Writer,
    key: str,
    value: str,
    *,
    expires_at: int | None = None,
    condition: Condition = ALWAYS,
) -> tuple[Row[Any], bool]:
    """Write a value, and return the entry and whether it is new. Raises VersionConflict and BlackboardFull."""
    row = _current(connection, writer, key)
    before = _checked(row, key, condition)
    size = len(value.encode())
    version = (row.version if row is not None else 0) + 1
    change = NewChange(key, version, "put", value, size, before.size if before is not None else None)
    check_quota(connection, writer, change)
    number = append_change(connection, writer, change)
    entry = {
        "value": value,
        "size": size,
        "version": version,
        "change": number,
        "updated_at": writer.now,
        "updated_by": writer.name,
        "cause": writer.cause,
        "expires_at": expires_at,
    }
    return connection.execute(_UPSERT, {"team": writer.team, "key": key, **entry}).one(), before is None


def delete_entry(connection: Connection, writer: Writer, key: str, condition: Condition) -> None:
    """Delete the entry with its claim. Raises NotFound and VersionConflict."""
    before = _checked(_current(connection, writer, key), key, condition)
    if before is None:
        raise NotFound(f"there is no entry {key!r}")
    _end(connection, writer, before, "delete")


def expire_due(connection: Connection, now: int, limits: BoardLimits) -> set[str]:
    """Delete entries whose time has come, some of them. Returns their teams."""
    expires = blackboard_entries.c.expires_at
    due = select(blackboard_entries).where(blackboard_entries.c.value.is_not(None) & (expires <= now))
    found = connection.execute(due.order_by(expires).limit(MOST_EXPIRED)).all()
    for row in found:
        _expire(connection, row, now, limits)
    return {row.team for row in found}


def claim_entry(connection: Connection, writer: Writer, key: str, until: int) -> tuple[str, int]:
    """Claim an entry, or renew the claim that the writer holds. Returns the claim's id and when it ends.

    Raises NotFound, and Claimed if another holds it."""
    row = read_entry(connection, writer.team, key, writer.now)
    holder = _holder(row, writer.now)
    if holder not in (None, writer.name):
        raise Claimed(key, row.claimed_by, row.claimed_until)
    claim_id: str = row.claim_id if holder is not None else f"clm_{secrets.token_hex(16)}"
    _set_claim(connection, row, {"claim_id": claim_id, "claimed_by": writer.name, "claimed_until": until})
    return claim_id, until


def release_entry(connection: Connection, writer: Writer, key: str, *, any_claim: bool) -> None:
    """End the writer's claim of an entry; without one, do nothing. Raises NotFound, and Claimed if another holds it and
    not `any_claim`."""
    row = read_entry(connection, writer.team, key, writer.now)
    holder = _holder(row, writer.now)
    if holder not in (None, writer.name) and not any_claim:
        raise Claimed(key, row.claimed_by, row.claimed_until)
    _set_claim(connection, row, _NO_CLAIM)


def _holder(row: Row[Any], now: int) -> str | None:
    """Return who holds the claim of an entry; None: nobody, or no longer. One that would last longer than a claim can
    was made before the clock was set back."""
    held = row.claimed_until is not None and now < row.claimed_until <= now + _LONGEST_CLAIM_MS
    return row.claimed_by if held else None


def _set_claim(connection: Connection, row: Row[Any], values: dict[str, Any]) -> None:
    mine = (blackboard_entries.c.team == row.team) & (blackboard_entries.c.key == row.key)
    connection.execute(update(blackboard_entries).where(mine).values(values))


def _current(connection: Connection, writer: Writer, key: str) -> Row[Any] | None:
    """Return the row of a key, also of a deleted entry. One whose time has come is expired first."""
    mine = {"team": writer.team, "key": key}
    row = connection.execute(ROW_OF_KEY, mine).first()
    if row is None or row.value is None or row.expires_at is None or row.expires_at > writer.now:
        return row
    _expire(connection, row, writer.now, writer.limits)
    return connection.execute(ROW_OF_KEY, mine).one()


def _checked(row: Row[Any] | None, key: str, condition: Condition) -> Row[Any] | None:
    """Return the entry; None if it is deleted. Raises VersionConflict if the condition does not hold."""
    entry = row if row is not None and row.value is not None else None
    version = entry.version if entry is not None else 0
    if not condition.holds(version):
        raise VersionConflict(key, value_of(entry), version)
    return entry


def _expire(connection: Connection, row: Row[Any], now: int, limits: BoardLimits) -> None:
    """End an entry in the name of its writer, who has set its end."""
    _end(connection, Writer(row.team, row.updated_by, row.cause, now, limits), row, "expire")


def _end(connection: Connection, writer: Writer, row: Row[Any], kind: ChangeKind) -> None:
    version = row.version + 1
    number = append_change(connection, writer, NewChange(row.key, version, kind, size_before=row.size))
    values = {
        **_NO_CLAIM,
        "value": None,
        "size": 0,
        "version": version,
        "change": number,
        "updated_at": writer.now,
        "updated_by": writer.name,
        "cause": writer.cause,
        "expires_at": None,
    }
    _set_claim(connection, row, values)
