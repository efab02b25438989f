"""The log of a team's changes, numbered without a gap. It is bounded: the oldest go when newer ones need the room."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, and_, bindparam, delete, insert, select, update
from sqlalchemy.dialects import postgresql

from agent_common.protocol import ChangeKind

from ..database import blackboard_changes, blackboard_entries, blackboards
from .errors import BlackboardFull

_ROW_BYTES = 200
"""What a change takes beside its value."""
_TRIMMED_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class BoardLimits:
    """The bounds of one team's blackboard."""

    entries: int = 100_000
    bytes: int = 256 << 20
    """Of the values of all entries."""
    changes: int = 100_000
    """Changes that are kept."""
    log_bytes: int = 256 << 20
    """Bytes of them."""


LIMITS = BoardLimits()
# Built once: building a statement takes several times as long as running it.
_HELD = select(blackboards.c.entries, blackboards.c.bytes).where(blackboards.c.team == bindparam("team"))
_APPEND = insert(blackboard_changes)
_GROWN = ("entries", "bytes", "log_bytes")
_FIRST = postgresql.insert(blackboards)  # SQLite spells it the same way
_COUNT = (
    _FIRST.values(newest=1, oldest=1, **{name: bindparam(name) for name in ("team", *_GROWN)})
    .on_conflict_do_update(
        index_elements=["team"],
        set_={
            "newest": blackboards.c.newest + 1,
            **{name: blackboards.c[name] + _FIRST.excluded[name] for name in _GROWN},
        },
    )
    .returning(blackboards)
)
"""Count one more change of a team, and what it has grown by."""


@dataclass(frozen=True, slots=True)
class Writer:
    """Who writes, why, and when."""

    team: str
    name: str
    """The agent's id, or `operator`."""
    cause: str
    """The JSON of a Cause."""
    now: int
    """Epoch milliseconds."""
    limits: BoardLimits = LIMITS


@dataclass(frozen=True, slots=True)
class NewChange:
    """A change of one entry."""

    key: str
    version: int
    kind: ChangeKind
    value: str | None = None
    """JSON; None unless it is a put."""
    size: int = 0
    """Bytes of the value."""
    size_before: int | None = None
    """Bytes of the value that it replaces; None: there was none."""


def check_quota(connection: Connection, writer: Writer, change: NewChange) -> None:
    """Raise BlackboardFull if the team may not have so many entries, or so large ones."""
    held = connection.execute(_HELD, {"team": writer.team}).first()
    entries, size = (held.entries, held.bytes) if held else (0, 0)
    if change.size_before is None and entries >= writer.limits.entries:
        raise BlackboardFull(
            f"the blackboard of the team {writer.team!r} has {entries} entries; delete some, or set a ttl"
        )
    if size + change.size - (change.size_before or 0) > writer.limits.bytes:
        raise BlackboardFull(
            f"the blackboard of the team {writer.team!r} has {size} bytes; delete entries, or set a ttl"
        )


def append_change(connection: Connection, writer: Writer, change: NewChange) -> int:
    """Append to the log, and count what the team has. Returns the number of the change."""
    logged = change.size + len(change.key) + len(writer.cause) + _ROW_BYTES
    grown = change.size - (change.size_before or 0)
    more = (change.kind == "put") - (change.size_before is not None)
    counted = {"team": writer.team, "entries": more, "bytes": grown, "log_bytes": logged}
    board = connection.execute(_COUNT, counted).one()
    row = {
        "team": writer.team,
        "number": board.newest,
        "key": change.key,
        "version": change.version,
        "kind": change.kind,
        "value": change.value,
        "size": logged,
        "at": writer.now,
        "by": writer.name,
        "cause": writer.cause,
    }
    connection.execute(_APPEND, row)
    _trim(connection, writer, board)
    return board.newest


def _trim(connection: Connection, writer: Writer, board: Row[Any]) -> None:
    """Delete the oldest changes if there are too many, and the rows of entries whose deletion was one of them."""
    team = writer.team
    limits = writer.limits
    if board.newest - board.oldest < limits.changes and board.log_bytes <= limits.log_bytes:
        return
    numbers = blackboard_changes.c.number
    mine = blackboard_changes.c.team == team
    oldest = select(numbers, blackboard_changes.c.size).where(mine).order_by(numbers).limit(_TRIMMED_AT_ONCE)
    kept = board.oldest
    left = board.log_bytes
    for number, size in connection.execute(oldest).all():
        if board.newest - kept < limits.changes and left <= limits.log_bytes:
            break
        kept = number + 1
        left = left - size
    connection.execute(delete(blackboard_changes).where(and_(mine, numbers < kept)))
    gone = blackboard_entries.c.value.is_(None) & (blackboard_entries.c.change < kept)
    connection.execute(delete(blackboard_entries).where((blackboard_entries.c.team == team) & gone))
    connection.execute(update(blackboards).where(blackboards.c.team == team).values(oldest=kept, log_bytes=left))
