"""Artifacts: files that the agents of a team share (docs/reference/artifacts.md)."""

from __future__ import annotations

from pydantic import Field

from .base import Peer
from .blackboard import Cause

MAX_ARTIFACT_NAME = 512
"""Characters of a name."""
MAX_ARTIFACT_BYTES = 64 << 20
"""Bytes of one artifact."""


class StoredArtifact(Peer):
    """Answer of `PUT /artifacts/{name}`: the version that it has made."""

    name: str
    version: int
    """Grows by one with each write of the name."""
    sha256: str
    """Of its bytes, in hexadecimal digits."""
    size: int
    """Bytes."""
    media_type: str


class Artifact(StoredArtifact):
    """An artifact in its newest version."""

    updated_at: int
    """Epoch milliseconds."""
    updated_by: str
    """The id of the agent that wrote it, or `operator`."""
    cause: Cause


class ArtifactList(Peer):
    """A page of `GET /artifacts`, by name."""

    artifacts: list[Artifact]
    next: str | None = Field(default=None, exclude_if=lambda value: value is None)
    """Pass it as `after` for the next page; absent on the last one."""
