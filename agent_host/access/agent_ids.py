"""Which ids agents may have."""

from __future__ import annotations

import re

from ..errors import InvalidRequest

OPERATOR = "operator"
"""The id of the operator. No agent may have it."""
_AGENT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def check_agent_id(agent_id: str) -> None:
    """Raise InvalidRequest if an agent may not have this id."""
    if not _AGENT_ID.fullmatch(agent_id):
        message = "must be 1 to 100 letters, digits, '.', '_' or '-', and begin with a letter or digit"
    elif agent_id == OPERATOR:
        message = "is taken by the operator; choose another"
    else:
        return
    raise InvalidRequest(f"id {agent_id!r} {message}", faults=[("id", message)])
