"""All attempts. A case is data; what happens with it stands in `play`."""

from __future__ import annotations

from ..case import Case
from . import (
    authoring,
    children,
    exhaust,
    mediation,
    network,
    outlive,
    privileges,
    quota,
    reading,
    sockets,
    tricks,
    writing,
)

CASES: tuple[Case, ...] = (
    *reading.CASES,
    *tricks.CASES,
    *writing.CASES,
    *network.CASES,
    *sockets.CASES,
    *outlive.CASES,
    *exhaust.CASES,
    *quota.CASES,
    *privileges.CASES,
    *children.CASES,
    *authoring.CASES,
    *mediation.CASES,
)

PARTS = children.PARTS
"""What the model is asked for within other cases."""

__all__ = ["CASES", "PARTS"]
