"""What hubs tell each other by the database."""

from __future__ import annotations

from typing import Literal, NamedTuple

from sqlalchemy import BigInteger, cast, extract, func

DATABASE_MS = cast(extract("epoch", func.clock_timestamp()) * 1000, BigInteger)
"""The time by the one clock that all hubs see."""


class Change(NamedTuple):
    """Something that a hub has written."""

    kind: Literal["session", "agent", "lease", "fired"]
    subject: str
    """Id of the session or agent."""
    number: int = 0
    """The session's last sequence, or the fence of the lease."""
    detail: str = ""
    """Who has the lease; empty: nobody. Or the violated expectation."""
