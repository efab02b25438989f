"""Errors of the blackboard."""

from __future__ import annotations

from typing import Any

from pydantic import RootModel

from ..errors import Conflict, RequestError


class VersionConflict(RequestError):
    """The entry has another version; the answer has the present value and version."""

    status = 412
    code = "version_conflict"

    def __init__(self, key: str, value: Any, version: int) -> None:
        """`version`: 0 if there is no such entry."""
        there = f"has version {version}" if version else "does not exist"
        headers = {"etag": f'"{version}"'} if version else {}
        present = RootModel[Any](value)  # a member that is null would be left out
        message = f"the entry {key!r} {there}; read it and decide again"
        super().__init__(message, headers=headers, value=present, version=version)


class Claimed(Conflict):
    """Somebody else has claimed the entry."""

    code = "claimed"

    def __init__(self, key: str, claimed_by: str, expires_at: int) -> None:
        super().__init__(
            f"{claimed_by!r} has claimed {key!r}; try again when the claim has ended",
            claimed_by=claimed_by,
            expires_at=expires_at,
        )


class ValueTooLarge(RequestError):
    """The value is too large."""

    status = 413
    code = "value_too_large"


class BlackboardFull(RequestError):
    """The team's blackboard is full; delete entries, or give them a ttl."""

    status = 507
    code = "blackboard_full"
