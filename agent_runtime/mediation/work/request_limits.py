"""What a request may use, as limits and rules of its turn. What cannot be enforced is refused, not ignored."""

from __future__ import annotations

import re

from agent_common.protocol import Rule
from agent_common.protocol.authority import Layer
from agent_common.protocol.work import WorkBounds, WorkRequest

from ...loop import TurnLimits

_SCOPE = re.compile(r"([A-Za-z0-9_*][A-Za-z0-9_.:*/-]*?)(?:\(([^()]*)\))?")


class WorkRefused(Exception):
    """The request cannot be taken. `code` is stable and says whether the same id may come again."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code, self.text = code, text


class WindowFull(WorkRefused):
    """All places of the window are taken."""


def limits_within(limits: TurnLimits, bounds: WorkBounds | None) -> TurnLimits:
    """The limits of the turn, and no more than the bounds."""
    if bounds is None:
        return limits
    return limits.within(
        seconds=bounds.max_duration_seconds,
        tokens=bounds.max_tokens,
        calls=bounds.max_tool_calls,
        egress=bounds.max_egress_bytes,
    )


def check_bounds(bounds: WorkBounds | None, *, confined: bool) -> None:
    """Raises Refused for a bound that nothing here can watch."""
    if bounds is not None and bounds.max_egress_bytes is not None and not confined:
        text = "commands of this agent are not confined, and have the machine's own network"
        raise WorkRefused("unsupported_bound:max_egress_bytes", text)


def scope_layer(request: WorkRequest) -> Layer | None:
    """The authorization scope as one more layer of authority: what it does not name is denied. Entries are names of
    permissions with `*`, as `read` or `skill:*`, and may have a pattern, as `bash(git *)`. Raises Refused."""
    scope = request.principal.authorization_scope
    if not scope:
        return None
    rules = [Rule(permission="*", pattern="*", action="deny")]
    for entry in scope:
        found = _SCOPE.fullmatch(entry.strip())
        if found is None:
            raise WorkRefused("invalid_scope", f"{entry[:100]!r}: name a permission, as in read, web_* or bash(git *)")
        rules.append(Rule(permission=found[1], pattern=found[2] or "*", action="allow"))
    return Layer(rules=tuple(rules))
