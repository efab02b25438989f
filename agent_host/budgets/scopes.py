"""What a budget is for: `team:NAME`, `agent:ID`, or `agent:ID/NAME` for a subagent of that agent."""

from __future__ import annotations

import re

from ..errors import InvalidRequest

_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"
_SCOPE = re.compile(rf"team:{_NAME}|agent:{_NAME}(?:/{_NAME})?")


def team_scope(team: str) -> str:
    return f"team:{team}"


def agent_scope(agent_id: str, subagent: str | None = None) -> str:
    return f"agent:{agent_id}/{subagent}" if subagent else f"agent:{agent_id}"


def agent_of(scope: str) -> str | None:
    """Return the agent whose own budget this is, or that of a subagent; None for that of a team."""
    kind, _, name = scope.partition(":")
    return name.partition("/")[0] if kind == "agent" else None


def checked_scope(text: str) -> str:
    """Return the text. Raises InvalidRequest if it names no scope."""
    if not _SCOPE.fullmatch(text):
        message = "must be team:NAME, agent:ID, or agent:ID/NAME for a subagent"
        raise InvalidRequest(f"scope {text!r} {message}", faults=[("scope", message)])
    return text
