"""Artifacts: files that the agents of a team share, in versions (docs/reference/artifacts.md)."""

from .artifacts import Artifacts, open_artifacts
from .limits import ArtifactLimits
from .routes import is_artifact_upload, router

__all__ = ["ArtifactLimits", "Artifacts", "is_artifact_upload", "open_artifacts", "router"]
