"""Decide whether a workspace may get work now."""

from __future__ import annotations

from ..channels.channel import WorkspaceChannel
from ..owner import WorkspaceOwner


class SendGate:
    """The one check of whether a workspace's agent may be sent work."""

    def __init__(self, owner: WorkspaceOwner) -> None:
        self._owner = owner

    def blocked_by(self, channel: WorkspaceChannel) -> str | None:
        """Return the first reason why the workspace may get no work now, as a stable code, or None if it may."""
        if channel.fence is not None:
            return channel.fence
        if channel.drained:
            return "drained"
        if channel.paused:
            return "paused"
        if not self._owner.is_running(channel.workspace):
            return "not_running"
        session = channel.session
        if session is None:
            return "not_attached"
        if session.state != "ready":
            return session.state
        return None if len(session.slots) < session.window else "window_full"
