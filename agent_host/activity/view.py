"""What a caller may see of the agents, and has asked for."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ..access import HostCaller, UserSet


@dataclass(frozen=True, slots=True)
class Audience:
    """Whom an event is for."""

    workspace: str | None
    """None: only for those who see all workspaces."""
    user: str | None = None
    """Only for this user; None: for all who may see the workspace."""


@dataclass(frozen=True, slots=True)
class View:
    """Some workspaces, as some users or as the operator."""

    workspaces: Collection[str] | None = None
    """None: all."""
    users: UserSet | None = None
    """None: all."""

    def includes(self, workspace_id: str | None) -> bool:
        return self.workspaces is None or workspace_id in self.workspaces

    def sees(self, audience: Audience) -> bool:
        return self.includes(audience.workspace) and (audience.user is None or self.shows(audience.user))

    def shows(self, user: str) -> bool:
        return self.users is None or user in self.users


def view_of(caller: HostCaller, workspace: str | None, users: UserSet | None) -> View:
    """Return what the caller sees of this workspace, or without one of all of its own, and of these users. Raises
    Forbidden if a scoped token asks for the workspace of others."""
    named = None if workspace is None else frozenset({workspace})
    if caller.scope is not None and workspace is not None:
        caller.scope.check_workspace(workspace)
    return View(named or (caller.scope.workspaces if caller.scope else None), users)
