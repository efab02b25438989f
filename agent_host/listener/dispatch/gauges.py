"""Read the values that the listener's metrics show as gauges."""

from __future__ import annotations

from ..channels.workspace_channels import WorkspaceChannels


def gauges(
    channels: WorkspaceChannels, *, unproven: int, open_requests: int, commits: int
) -> dict[str, tuple[str, float]]:
    """Return the help text and the current value of each gauge, by name."""
    sessions = [channel.session for channel in channels if channel.session is not None]
    return {
        "attached": ("Agents that are attached.", len(sessions)),
        "ready": ("Agents that may be given work.", sum(session.state == "ready" for session in sessions)),
        "unproven": ("Connections whose agent has not proved who it is.", unproven),
        "open_requests": ("Requests that are not over.", open_requests),
        "in_flight": ("Requests that agents have.", sum(len(session.slots) for session in sessions)),
        "commits": ("Commits of the ledger since the host started.", commits),
    }
