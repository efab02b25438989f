"""Convert a request's bounds and scope to limits and rules of its turn. A bound that cannot be enforced is refused."""

from __future__ import annotations

import re

from agent_common.protocol import Rule
from agent_common.protocol.authority import Layer
from agent_common.protocol.work import WorkBounds, WorkRequest

from ...loop import TurnLimits

_SCOPE = re.compile(r"([A-Za-z0-9_*][A-Za-z0-9_.:*/-]*?)(?:\(([^()]*)\))?")


class WorkRefused(Exception):
    """Raised if a request is refused. `code` is stable and tells whether the same id may be sent again."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code
        self.text = text


class WindowFull(WorkRefused):
    """Raised if all places of the window are taken."""


def limits_within(limits: TurnLimits, bounds: WorkBounds | None) -> TurnLimits:
    """Return the limits of the turn, reduced to the bounds."""
    if bounds is None:
        return limits
    return limits.within(
        seconds=bounds.max_duration_seconds,
        tokens=bounds.max_tokens,
        calls=bounds.max_tool_calls,
        egress=bounds.max_egress_bytes,
    )


def check_bounds(bounds: WorkBounds | None, *, confined: bool) -> None:
    """Raise WorkRefused for a bound that cannot be enforced here."""
    if bounds is not None and bounds.max_egress_bytes is not None and not confined:
        text = "commands of this agent are not confined, and have the machine's own network"
        raise WorkRefused("unsupported_bound:max_egress_bytes", text)


def scope_layer(request: WorkRequest) -> Layer | None:
    """Return the authorization scope as a layer of authority that denies everything else; None without a scope.

    Entries are names of permissions with `*`, such as `read` or `skill:*`, and may have a pattern, such as `bash(git
    *)`. Raises WorkRefused.
    """
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
