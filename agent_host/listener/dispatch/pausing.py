"""A workspace whose machine stands still is not dead: its deadlines stand still too."""

from __future__ import annotations

from ..channels.channel import WorkspaceChannel
from ..dispatch import constraints
from ..parts import Parts


def pause(parts: Parts, channel: WorkspaceChannel) -> None:
    """Again is a no-op."""
    if channel.paused:
        return
    channel.paused = True
    parts.audit_log.event("paused", workspace=channel.workspace, epoch=channel.epoch)
    session = channel.session
    if session is None:
        return
    session.connection.freeze()
    constraints.pause_ack_timers(parts, session)
    for work in session.slots.values():
        if work.timer is not None:
            work.timer.freeze()


def unpause(parts: Parts, channel: WorkspaceChannel) -> None:
    """Again is a no-op."""
    if not channel.paused:
        return
    channel.paused = False
    parts.audit_log.event("unpaused", workspace=channel.workspace, epoch=channel.epoch)
    session = channel.session
    if session is not None:
        session.connection.last_received_at = parts.clock.monotonic()  # it could not say anything
        session.connection.thaw()
        for work in session.slots.values():
            if work.timer is not None:
                work.timer.thaw()
        constraints.resume_ack_timers(parts, session)
    parts.dispatcher.send_queued(channel)
