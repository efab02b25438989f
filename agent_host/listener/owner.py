"""The listener's view of the program around it, which runs the workspaces and holds their tokens."""

from __future__ import annotations

from typing import Protocol

from sqlalchemy import Connection


class WorkspaceOwner(Protocol):
    """Runs workspaces and holds their tokens. The fleet's bridge is one."""

    def is_running(self, workspace: str) -> bool:
        """Whether the workspace runs: work is sent only to workspaces that do."""
        ...

    def on_halt(self, workspace: str) -> None:
        """The listener has fenced the workspace, and it must be stopped."""
        ...

    def revoke_tokens(self, connection: Connection, workspace: str) -> None:
        """Delete the workspace's tokens, in the transaction that writes its fence."""
        ...

    def on_fenced(self, workspace: str) -> None:
        """The fence and the deletion of the tokens are on the disk."""
        ...


class NoOwner:
    """For a listener whose agents are started elsewhere: every workspace counts as running, and none has tokens."""

    def is_running(self, workspace: str) -> bool:
        del workspace
        return True

    def on_halt(self, workspace: str) -> None:
        """Nothing to stop."""

    def revoke_tokens(self, connection: Connection, workspace: str) -> None:
        """No tokens to delete."""

    def on_fenced(self, workspace: str) -> None:
        """No connections to end."""
