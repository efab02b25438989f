"""The bounds of a team's artifacts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ArtifactLimits:
    """What one team may keep."""

    bytes: int = 4 << 30
    """Of all versions."""
    names: int = 10_000
    versions: int = 10
    """That are kept of one name, the newest."""
    deleted: int = 10_000
    """Deleted names whose last version is remembered, the newest."""


LIMITS = ArtifactLimits()
