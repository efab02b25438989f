"""Read the rows of artifacts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_core import to_json
from sqlalchemy import Connection, Row, select

from ..database import artifact_versions, artifacts, end_of_prefix
from ..errors import NotFound


@dataclass(frozen=True, slots=True)
class ArtifactPage:
    """Artifacts in their newest versions, and where the next page goes on."""

    rows: list[Row[Any]]
    next: str | None


def read_version(connection: Connection, team: str, name: str, version: int | None) -> Row[Any]:
    """Return a version of the artifact; None: the newest. Raises NotFound."""
    table = artifact_versions
    query = select(table).where((table.c.team == team) & (table.c.name == name))
    if version is not None:
        query = query.where(table.c.version == version)
    row = connection.execute(query.order_by(table.c.version.desc()).limit(1)).first()
    if row is None:
        raise NotFound(f"there is no artifact {name!r}" if version is None else f"{name!r} has no version {version}")
    return row


def list_artifacts(connection: Connection, team: str, prefix: str, after: str | None, limit: int) -> ArtifactPage:
    """Return artifacts by name, from the first that begins with the prefix and follows `after`."""
    table = artifact_versions
    names = artifacts.c.name
    end = end_of_prefix(prefix)
    newest = (table.c.team == artifacts.c.team) & (table.c.name == names) & (table.c.version == artifacts.c.current)
    query = select(table).join(artifacts, newest).where((artifacts.c.team == team) & (names >= prefix))
    if end is not None:
        query = query.where(names < end)
    if after is not None:
        query = query.where(names > after)
    found = list(connection.execute(query.order_by(names).limit(limit + 1)))
    more = len(found) > limit
    return ArtifactPage(found[:limit], found[limit - 1].name if more else None)


def known_files(connection: Connection, files: Sequence[str]) -> set[str]:
    """Return those of the files that a row names."""
    return set(
        connection.execute(select(artifact_versions.c.file).where(artifact_versions.c.file.in_(files))).scalars()
    )


def render_artifact(row: Row[Any]) -> bytes:
    """Return an Artifact as JSON, with the cause as it is stored."""
    known = {name: getattr(row, name) for name in ("name", "version", "sha256", "size", "media_type")}
    written = {"updated_at": row.updated_at, "updated_by": row.updated_by}
    return b'%b,"cause":%b}' % (to_json({**known, **written})[:-1], row.cause.encode())
