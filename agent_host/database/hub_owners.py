"""Whose the rows of the hub are: of all agents, over time, that have the same name.

An agent that is unregistered frees its name, and who registers it next has another id. The ids of a name begin alike,
so that they share what is kept of one agent.
"""

from __future__ import annotations

import hashlib
from typing import Any

from sqlalchemy import ColumnElement, func, literal_column

_DIGITS = 16
_LENGTH = len("agt:") + _DIGITS


def owner_of_name(name: str) -> str:
    """Return how the ids of all agents of this name begin."""
    return f"agt:{hashlib.sha256(name.encode()).hexdigest()[:_DIGITS]}"


def owner_of_id(agent_id: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return the beginning of the ids in a column. One that is older than this rule is its own owner."""
    return func.substr(agent_id, literal_column("1"), literal_column(str(_LENGTH)))
