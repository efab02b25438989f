"""Timeouts and retry pauses for MCP servers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

MAX_PROMPT_RELISTS = 30


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Timeouts and pauses, in seconds."""

    first_wait: float = 5.0
    """Longest wait at the start of a turn for a server that has not listed its tools before."""
    connect: float = 30.0
    """Time from the start of a connection to the list of tools, for a server that has no other one."""
    idle: float = 600.0
    """Time without a call or a turn after which a connection is closed."""
    backoff: tuple[float, ...] = (1.0, 2.0, 5.0, 15.0, 60.0)
    """Pauses between attempts; the last one repeats."""
    stable: float = 60.0
    """After a connection that has lasted this long, the pauses start again with the first."""
    relist: float = 1.0
    """Shortest time between two listings, when the server reports changed tools."""
    relist_later: float = 60.0
    """Shortest time between two listings, after `MAX_PROMPT_RELISTS` of them in one connection."""
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
