"""Divide the host's open files, so that one kind of caller cannot use up those of another."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DescriptorShares:
    """The largest concurrent number of each kind. The rest is for the database, mediation, machines and files."""

    connections: int
    """Connections to the HTTP server."""
    calls: int
    """Model calls, each with a connection to a provider."""
    tunnels: int
    """Tunnels of the forward proxy, each with two connections."""
    heads: int
    """Connections of the forward proxy that have not sent a token yet."""


def divide_descriptors(files: int) -> DescriptorShares:
    """Divide the number of files that the process may open."""
    return DescriptorShares(
        connections=min(4096, files * 3 // 8),
        calls=min(2048, files * 3 // 16),
        tunnels=min(256, files // 16),
        heads=min(256, files // 16),
    )
