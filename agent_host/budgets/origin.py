"""Who makes a model call: the agent by its token, its team, and what the agent says of its session.

What an agent says cannot be checked. It divides the agent's own usage for reports, and names a subagent whose budget
may only be narrower: every call counts for the agent itself and for its team, whatever it says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from agent_common.protocol import CALLER_HEADER, SESSION_HEADER, SUBAGENT_HEADER, USER_HEADER

from ..errors import InvalidCall
from .scopes import agent_scope, team_scope

_LONGEST = {SESSION_HEADER: 100, CALLER_HEADER: 100, USER_HEADER: 200, SUBAGENT_HEADER: 100}
"""Characters of a value. The columns of the ledger are as long."""


@dataclass(frozen=True, slots=True)
class CallOrigin:
    """Who makes a call."""

    agent_id: str
    team: str
    session: str | None = None
    caller_session: str | None = None
    """Of a subagent the session that called it."""
    subagent: str | None = None
    """The subagent's name; None: the agent itself."""
    user: str | None = None

    @property
    def scopes(self) -> tuple[str, ...]:
        """The budgets for which the call counts, if they exist."""
        own = (agent_scope(self.agent_id, self.subagent),) if self.subagent else ()
        return (*own, agent_scope(self.agent_id), team_scope(self.team))

    def columns(self) -> dict[str, str | None]:
        """Return the columns of a row that say who made a call."""
        return {
            "agent_id": self.agent_id,
            "team": self.team,
            "session": self.session,
            "caller_session": self.caller_session,
            "subagent": self.subagent,
            "principal": self.user,
        }


def read_origin(agent_id: str, team: str, headers: Mapping[str, str]) -> CallOrigin:
    """Return the origin of a request. Raises InvalidCall that names a header which is wrong."""
    session, caller, subagent, user = (
        _read(headers, name) for name in (SESSION_HEADER, CALLER_HEADER, SUBAGENT_HEADER, USER_HEADER)
    )
    return CallOrigin(agent_id, team, session, caller, subagent, user)


def _read(headers: Mapping[str, str], name: str) -> str | None:
    given = headers.get(name)
    if not given:
        return None
    value = unquote(given, errors="replace") if len(given) <= 12 * _LONGEST[name] else given
    if len(value) > _LONGEST[name] or not value.isprintable():
        raise _fault(name, f"must be at most {_LONGEST[name]} printable characters, percent-encoded as in a URL")
    return value


def _fault(name: str, why: str) -> InvalidCall:
    return InvalidCall(f"{name}: {why}", param=name)
