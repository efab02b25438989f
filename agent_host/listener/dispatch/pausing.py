"""A workspace whose machine stands still is not dead: its deadlines stand still too."""

from __future__ import annotations

from ..parts import Parts
from . import constraints
from .channel import WorkspaceChannel


def pause(parts: Parts, channel: WorkspaceChannel) -> None:
    """Again is a no-op."""
    if channel.paused:
        return
    channel.paused = True
    parts.trail.event("paused", workspace=channel.workspace, epoch=channel.epoch)
    session = channel.session
    if session is None:
        return
    session.wire.freeze()
    constraints.pause(parts, session)
    for work in session.slots.values():
        if work.timer is not None:
            work.timer.freeze()


def unpause(parts: Parts, channel: WorkspaceChannel) -> None:
    """Again is a no-op."""
    if not channel.paused:
        return
    channel.paused = False
    parts.trail.event("unpaused", workspace=channel.workspace, epoch=channel.epoch)
    session = channel.session
    if session is not None:
        session.wire.seen = parts.clock.monotonic()  # it could not say anything
        session.wire.thaw()
        for work in session.slots.values():
            if work.timer is not None:
                work.timer.thaw()
        constraints.unpause(parts, session)
    parts.dispatch.pump(channel)
