"""The workspace as a resource: what lies in a folder, and what the files are that every session is told."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from .base import Peer

EntryType = Literal["file", "folder", "link", "other"]
MAX_LISTED = 1000


def _absent(value: object) -> bool:
    return value is None


class WorkspaceEntry(Peer):
    """One thing in a folder."""

    name: str
    type: EntryType
    """A link is not followed; `other` is a pipe, a socket or the like, or has a name that is not UTF-8."""
    size: int | None = Field(default=None, exclude_if=_absent)
    """Bytes of a file."""
    modified: int
    """Epoch milliseconds."""


class BootstrapState(Peer):
    """One of the files that tell an agent who it is."""

    name: str
    size: int | None
    """Bytes; null when there is no such file."""
    cap: int
    """Characters that may be put there."""
    prompt_cap: int
    """Characters that the prompt of a new session shows."""
    cut: bool
    """Whether the prompt of a session that began now would show only its beginning."""


class WorkspaceListing(Peer):
    """A page of a folder, in the order of the names' bytes."""

    path: str
    """Relative to the workspace; empty for the workspace itself."""
    entries: list[WorkspaceEntry]
    next: str | None = Field(default=None, exclude_if=_absent)
    """Give it as `after` for the next page; absent on the last one."""
    bootstrap: list[BootstrapState] | None = Field(default=None, exclude_if=_absent)
    """Beside the first page of the workspace itself."""


class _Query(BaseModel):
    """Query parameters: unknown ones are refused by name."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class WorkspaceQuery(_Query):
    """Which part of a folder to list."""

    limit: int = Field(default=200, ge=1, le=MAX_LISTED)
    after: str | None = Field(default=None, min_length=1, max_length=1000)


class NoQuery(_Query):
    """A route that takes no parameters."""
