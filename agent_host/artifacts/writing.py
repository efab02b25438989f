"""Write the rows of artifacts: each function reads what is there, decides, and writes, in the transaction of a
BatchWriter. Nothing is written before everything is decided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, Row, delete, insert, select, update
from sqlalchemy.dialects import postgresql

from ..database import artifact_teams, artifact_versions, artifacts
from ..errors import NotFound
from ..http import Condition
from .errors import ArtifactConflict, ArtifactsFull
from .limits import ArtifactLimits

_TOMBSTONES_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class NewVersion:
    """A version whose file is on the disk."""

    team: str
    name: str
    file: str
    sha256: str
    size: int
    media_type: str
    updated_at: int
    """Epoch milliseconds."""
    updated_by: str
    cause: str
    """The JSON of a Cause."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A version that is written."""

    version: int
    is_new: bool
    """Whether there was no such artifact."""
    replaced: list[str]
    """Files of older versions that are no longer kept."""


def check_write(
    connection: Connection, team: str, name: str, size: int, condition: Condition, limits: ArtifactLimits
) -> Sequence[Row[int, str, int]]:
    """Return the versions that are kept of the artifact, the oldest first.

    Raises ArtifactConflict if the condition does not hold, and ArtifactsFull if the team may not have `size` more."""
    kept = _kept(connection, team, name, condition)
    held = connection.execute(select(artifact_teams).where(artifact_teams.c.team == team)).first()
    names, total = (held.names, held.bytes) if held is not None else (0, 0)
    if not kept and names >= limits.names:
        raise ArtifactsFull(f"the team {team!r} has {names} artifacts; delete some")
    if total - sum(row.size for row in _replaced(kept, limits)) + size > limits.bytes:
        raise ArtifactsFull(
            f"the artifacts of the team {team!r} have {total} bytes, of at most {limits.bytes}; delete some"
        )
    return kept


def store_version(connection: Connection, new: NewVersion, condition: Condition, limits: ArtifactLimits) -> Stored:
    """Write a version, and delete the oldest if there are too many. Raises ArtifactConflict and ArtifactsFull."""
    kept = check_write(connection, new.team, new.name, new.size, condition, limits)
    replaced = _replaced(kept, limits)
    first = {"team": new.team, "name": new.name, "newest": 1, "current": 1}
    following = artifacts.c.newest + 1
    version = connection.execute(
        postgresql.insert(artifacts)  # SQLite spells it the same way
        .values(first)
        .on_conflict_do_update(
            index_elements=["team", "name"], set_={"newest": following, "current": following, "deleted_at": None}
        )
        .returning(artifacts.c.newest)
    ).scalar_one()
    row = {name: getattr(new, name) for name in new.__slots__}
    connection.execute(insert(artifact_versions).values(version=version, **row))
    _delete_versions(connection, new.team, new.name, replaced)
    _count(connection, new.team, 0 if kept else 1, new.size - sum(row.size for row in replaced))
    return Stored(version, not kept, [row.file for row in replaced])


def delete_versions(
    connection: Connection,
    team: str,
    name: str,
    *,
    version: int | None,
    condition: Condition,
    now: int,
    limits: ArtifactLimits,
) -> list[str]:
    """Delete the artifact, or one version of it. Returns the files. Raises NotFound and ArtifactConflict."""
    kept = _kept(connection, team, name, condition)
    gone = [row for row in kept if version in (None, row.version)]
    if not gone:
        raise NotFound(f"there is no artifact {name!r}" if version is None else f"{name!r} has no version {version}")
    left = [row.version for row in kept if row not in gone]
    _delete_versions(connection, team, name, gone)
    after = {"current": left[-1], "deleted_at": None} if left else {"current": None, "deleted_at": now}
    this = (artifacts.c.team == team) & (artifacts.c.name == name)
    connection.execute(update(artifacts).where(this).values(after))
    _count(connection, team, 0 if left else -1, -sum(row.size for row in gone))
    _forget_deleted(connection, team, limits)
    return [row.file for row in gone]


def _kept(connection: Connection, team: str, name: str, condition: Condition) -> Sequence[Row[int, str, int]]:
    table = artifact_versions
    query = select(table.c.version, table.c.file, table.c.size).where((table.c.team == team) & (table.c.name == name))
    kept = connection.execute(query.order_by(table.c.version)).all()
    current = kept[-1].version if kept else 0
    if not condition.holds(current):
        raise ArtifactConflict(name, current)
    return kept


def _replaced(kept: Sequence[Row[int, str, int]], limits: ArtifactLimits) -> Sequence[Row[int, str, int]]:
    """Return the versions that go when another comes."""
    return kept[: max(0, len(kept) + 1 - limits.versions)]


def _delete_versions(connection: Connection, team: str, name: str, rows: Sequence[Row[int, str, int]]) -> None:
    if rows:
        table = artifact_versions
        mine = (table.c.team == team) & (table.c.name == name)
        connection.execute(delete(table).where(mine & table.c.version.in_([row.version for row in rows])))


def _count(connection: Connection, team: str, names: int, size: int) -> None:
    grown = {"names": artifact_teams.c.names + names, "bytes": artifact_teams.c.bytes + size}
    upsert = postgresql.insert(artifact_teams).values(team=team, names=names, bytes=size)
    connection.execute(upsert.on_conflict_do_update(index_elements=["team"], set_=grown))


def _forget_deleted(connection: Connection, team: str, limits: ArtifactLimits) -> None:
    """Delete the rows of the artifacts that were deleted first, if there are too many."""
    deleted = (artifacts.c.team == team) & artifacts.c.deleted_at.is_not(None)
    newest_first = select(artifacts.c.name).where(deleted).order_by(artifacts.c.deleted_at.desc(), artifacts.c.name)
    beyond = list(connection.execute(newest_first.offset(limits.deleted).limit(_TOMBSTONES_AT_ONCE)).scalars())
    if beyond:
        connection.execute(delete(artifacts).where((artifacts.c.team == team) & artifacts.c.name.in_(beyond)))
