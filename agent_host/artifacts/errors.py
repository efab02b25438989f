"""Errors of artifacts."""

from __future__ import annotations

from ..errors import RequestError


class ArtifactConflict(RequestError):
    """The artifact has another version; the answer has the present one."""

    status = 412
    code = "version_conflict"

    def __init__(self, name: str, version: int) -> None:
        """`version`: 0 if there is no such artifact."""
        there = f"has version {version}" if version else "does not exist"
        headers = {"etag": f'"{version}"'} if version else {}
        super().__init__(f"the artifact {name!r} {there}; read it and decide again", headers=headers, version=version)


class ArtifactTooLarge(RequestError):
    """The artifact is too large."""

    status = 413
    code = "artifact_too_large"


class ArtifactsFull(RequestError):
    """The team has too many artifacts, or too large ones; delete some."""

    status = 507
    code = "artifacts_full"


class UploadFailed(RequestError):
    """The body has not come as it should."""

    status = 400
    code = "upload_incomplete"


class UploadTooSlow(RequestError):
    """The body has not come in time."""

    status = 408
    code = "body_too_slow"
