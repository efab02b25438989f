"""How the host divides its open files, so that no kind of caller uses up those of another."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DescriptorBudget:
    """Most of each at the same time. What is left is for the database, mediation, machines and files."""

    connections: int
    """To the HTTP server."""
    calls: int
    """Model calls, each with a connection to a provider."""
    tunnels: int
    """Of the forward proxy, each with a connection to both ends."""
    heads: int
    """Connections of the forward proxy that have not shown a token."""


def budget_of(files: int) -> DescriptorBudget:
    """Divide the number of files that the process may open."""
    return DescriptorBudget(
        connections=min(4096, files * 3 // 8),
        calls=min(2048, files * 3 // 16),
        tunnels=min(256, files // 16),
        heads=min(256, files // 16),
    )
