"""The listener's interface to the program that runs the workspaces and holds their tokens."""

from __future__ import annotations

from typing import Protocol

from sqlalchemy import Connection


class WorkspaceOwner(Protocol):
    """Runs workspaces and holds their tokens. The bridge to the fleet implements it."""

    def is_running(self, workspace: str) -> bool:
        """Whether the workspace runs. Work is sent only to workspaces that run."""
        ...

    def on_halt(self, workspace: str) -> None:
        """Stop the workspace, because the listener has fenced it."""
        ...

    def revoke_tokens(self, connection: Connection, workspace: str) -> None:
        """Delete the workspace's tokens, in the transaction that writes its fence."""
        ...

    def on_fenced(self, workspace: str) -> None:
        """Called when a fence is set, and again once it and the deletion of the tokens are durable."""
        ...


class NoOwner:
    """Owner for a listener whose agents are started elsewhere: every workspace counts as running, none has tokens."""

    def is_running(self, workspace: str) -> bool:
        del workspace
        return True

    def on_halt(self, workspace: str) -> None:
        """Do nothing: the workspace is run elsewhere."""

    def revoke_tokens(self, connection: Connection, workspace: str) -> None:
        """Do nothing: there are no tokens."""

    def on_fenced(self, workspace: str) -> None:
        """Do nothing: there are no connections to end."""
