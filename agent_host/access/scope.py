"""What a scoped token may do: speak for its users, in the named workspaces, until it expires."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from ..errors import Forbidden, InvalidRequest
from .agent_ids import check_agent_id
from .users import UserSet

MAX_WORKSPACES = 1000
MAX_EXPIRY = timedelta(days=3650)
_DURATION = re.compile(r"([1-9][0-9]{0,8})([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@dataclass(frozen=True, slots=True)
class TokenScope:
    """The users for whom a token speaks, and the workspaces in which it does."""

    users: UserSet
    workspaces: frozenset[str]

    def allows(self, workspace_id: str) -> bool:
        return workspace_id in self.workspaces

    def check_workspace(self, workspace_id: str) -> None:
        """Raise Forbidden for a workspace in which the token speaks for none of its users."""
        if not self.allows(workspace_id):
            raise Forbidden(f"this token speaks for {self.users} in other workspaces only")


def check_scope(users: UserSet, workspaces: Sequence[str]) -> TokenScope:
    """Return the scope. Raises InvalidRequest that names the field and the fix."""
    if not workspaces:
        raise _fault("workspaces", "name at least one workspace")
    if len(workspaces) > MAX_WORKSPACES:
        raise _fault("workspaces", f"name at most {MAX_WORKSPACES} workspaces")
    for name in workspaces:
        check_agent_id(name)
    return TokenScope(users, frozenset(workspaces))


def parse_duration(text: str) -> timedelta:
    """Return a duration such as `30d` (s, m, h, d, w). Raises InvalidRequest for anything else, and above ten years."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise _fault("expires", "write a number and a unit: 90s, 30m, 12h, 30d or 4w")
    found = timedelta(**{_UNITS[match[2]]: int(match[1])})
    if found > MAX_EXPIRY:
        raise _fault("expires", f"must be at most {MAX_EXPIRY.days}d")
    return found


def _fault(field: str, message: str) -> InvalidRequest:
    return InvalidRequest(f"{field}: {message}", faults=[(field, message)])
