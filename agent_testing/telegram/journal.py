"""The record of all calls, in the order in which they came."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .faults import FaultKind
from .parameters import Parameters


@dataclass(eq=False, slots=True)
class Call:
    """One call of the bot."""

    at: float
    """By the clock of the double."""
    method: str
    """As the bot wrote it."""
    parameters: Parameters
    fault: FaultKind | None = None
    applied: bool = False
    """Whether the call was carried out."""
    result: Any = None
    status: int | None = None
    """Of the answer, as far as one was sent; None while the call waits and after a cut."""
    error: str = ""
    """The description of a refusal."""
