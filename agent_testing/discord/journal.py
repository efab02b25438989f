"""All requests of the bots in the order in which they came."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Request:
    """One request to the REST API."""

    number: int
    method: str
    path: str
    """Below `/api/v10`, without the query."""
    route: str
    """The path with `{names}` for its ids."""
    query: dict[str, str]
    at: float
    """`time.monotonic()` when it was read."""
    body: Any = None
    """The JSON body; None if there is none."""
    uploads: int = 0
    """How many files came with it."""
    applied: bool = False
    """Whether it was done, whether or not the bot learnt of it."""
    status: int | None = None
    """Of the answer; None if there was none."""
    code: int | None = None
    """Discord's error code."""
    fault: str | None = None
    headers: dict[str, str] = field(default_factory=dict[str, str], repr=False)
