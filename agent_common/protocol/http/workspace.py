"""The workspace resource: the entries of a folder, and the files that are part of every session's prompt."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from ..base import Peer

EntryType = Literal["file", "folder", "link", "other"]
MAX_LISTED = 1000


def _absent(value: object) -> bool:
    return value is None


class WorkspaceEntry(Peer):
    """One entry of a folder."""

    name: str
    type: EntryType
    """The type of the entry. Links are not followed. `other` is a pipe, a socket or similar, or a name that is not
    UTF-8."""
    size: int | None = Field(default=None, exclude_if=_absent)
    """Size of a file in bytes."""
    modified: int
    """Epoch milliseconds."""


class BootstrapState(Peer):
    """One of the files that define who the agent is."""

    name: str
    size: int | None
    """Size in bytes; null if the file does not exist."""
    cap: int
    """Most characters that may be written to the file."""
    prompt_cap: int
    """Most characters of the file in the prompt of a new session."""
    cut: bool
    """Whether the prompt of a session that starts now would contain only the file's beginning."""


class WorkspaceListing(Peer):
    """A page of a folder's entries, ordered by the bytes of their names."""

    path: str
    """Relative to the workspace; empty for the workspace itself."""
    entries: list[WorkspaceEntry]
    next: str | None = Field(default=None, exclude_if=_absent)
    """Pass it as `after` to get the next page; absent on the last one."""
    bootstrap: list[BootstrapState] | None = Field(default=None, exclude_if=_absent)
    """Present only on the first page of the workspace itself."""


class _Query(BaseModel):
    """Query parameters: unknown ones are refused by name."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class WorkspaceQuery(_Query):
    """Which part of a folder to list."""

    limit: int = Field(default=200, ge=1, le=MAX_LISTED)
    after: str | None = Field(default=None, min_length=1, max_length=1000)


class NoQuery(_Query):
    """A route that takes no parameters."""
