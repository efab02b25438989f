"""What a fleet asks and tells the rest of the host. The composition root sets it; unset, nothing happens."""

from __future__ import annotations

from collections.abc import Callable

from .driver import Mediation

RecordEvent = Callable[[str, str, str | None], None]
"""Writes to the audit trail: the workspace, the kind of event, and the details."""


def _no_mediation(_workspace: str) -> Mediation:
    return {}


def _ignore(_workspace: str) -> None:
    return


def _ignore_pause(_workspace: str, _paused: bool) -> None:
    return


def _never_fenced(_workspace: str) -> bool:
    return False


class FleetHooks:
    """Callbacks of a fleet; each is given the id of a workspace."""

    def __init__(self) -> None:
        self.launch_mediation: Callable[[str], Mediation] = _no_mediation
        self.is_fenced: Callable[[str], bool] = _never_fenced
        """Whether a workspace must not run; called immediately before each start."""
        self.on_revoked: Callable[[str], None] = _ignore
        """Called when the tokens of a workspace have been revoked."""
        self.on_change: Callable[[str], None] = _ignore
        """Called when a workspace has started or stopped running."""
        self.on_paused: Callable[[str, bool], None] = _ignore_pause
        """Called with True when the machine of a workspace was paused, with False when it runs again or has ended."""
        self.on_exit: Callable[[str], None] = _ignore
        """Called when a runtime has ended without being stopped."""
