"""How long servers are waited for, and how often they are tried."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

MAX_PROMPT_RELISTS = 30


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Times in seconds."""

    first_wait: float = 5.0
    """The beginning of a turn waits so long for a server that has not been asked before."""
    connect: float = 30.0
    """From the start of a connection to the list of tools."""
    idle: float = 600.0
    """Without a call or a turn, after which a connection is closed."""
    backoff: tuple[float, ...] = (1.0, 2.0, 5.0, 15.0, 60.0)
    """Between one attempt and the next."""
    stable: float = 60.0
    """A connection that has lasted so long was good: after it the pauses begin anew."""
    relist: float = 1.0
    """Between two listings, however often the server says that its tools have changed."""
    relist_later: float = 60.0
    """The same once it has said so `MAX_PROMPT_RELISTS` times in one connection."""
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
