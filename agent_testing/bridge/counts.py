"""What a bridge has counted."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Counts:
    """Everything since the bridge was made."""

    accepted: int = 0
    """Connections of the guest, refused ones included."""
    open: int = 0
    """Connections that stand now, those included that still dial or whose one end is held."""
    most_open: int = 0
    refused: int = 0
    """Closed at once because there were too many."""
    dialled: int = 0
    """Connections that reached the host."""
    failed_dials: int = 0
    """Connections that were closed because the host was not to be reached."""
    breaks: int = 0
    """Connections that a fault broke, or one leg of them."""
    to_host: int = 0
    """Bytes that have gone over to the host; a piece counts when the last of it is out."""
    to_guest: int = 0
    """Bytes that have gone over to the guest."""
    probes: int = 0
    """Readiness probes, and the connects of floods."""
    events: int = 0
    """Faults of the schedule that were carried out."""
