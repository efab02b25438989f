"""The capability step of the gate: grants, then rules. What no grant covers is an error, what no rule covers asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agent_common.protocol import NewRule, RequirementSet
from agent_common.protocol.authority import Access, Decision, covers

from ...ports import ToolContext
from .contract import ALIASES, AccessRequest, Tool
from .verdict import Verdict

SHOWN = 200
"""Characters of a subject that a reason repeats."""
LONGEST = 1000
"""Characters of a pattern."""
MOST_SUGGESTED = 10
"""Rules that one approval may add."""
_ALIASES = {name: tuple(alias for alias in ALIASES if ALIASES[alias] == name) for name in ALIASES.values()}
"""The same by the name that they stand for."""


class PermissionCheck:
    """Asks the authority that the call comes with."""

    async def check(self, tool: Tool, arguments: Mapping[str, Any], context: ToolContext) -> Verdict:
        """Raises ToolFailure when the arguments do not even say what they touch."""
        if not context.authority.offers(tool.spec.name, *further_names(tool)):
            return Verdict("deny", f"{tool.spec.name} is refused: agent {context.agent} does not have it")
        reach = await tool.reach(arguments, context) if tool.reach else AccessRequest()
        lacks = context.authority.missing(reach.requires or tool.requires, context.variables)
        if lacks is not None:
            return Verdict("deny", f"{tool.spec.name} is refused: agent {context.agent} may not {lacks}")
        decision = context.authority.decide(access(tool, reach))
        if decision.action == "allow":
            always = _rules(tool, reach, [subject.replace("*", "?") for subject in reach.subjects])
            return Verdict(always=always, touches=reach.subjects, by_person=decision.by_person)
        always = _always(tool, reach, decision)
        return Verdict(decision.action, _reason(tool, reach, decision, context), always=always, touches=reach.subjects)


def access(tool: Tool, reach: AccessRequest) -> Access:
    """A call as the rules see it."""
    own, implied = _capabilities(tool.requires)
    name = tool.spec.name
    return Access(
        name,
        further_names(tool),
        own,
        implied,
        reach.subjects,
        reach.shadows,
        reach.starts,
        opaque=bool(reach.opaque),
        anything=reach.anything,
    )


def further_names(tool: Tool) -> tuple[str, ...]:
    """How rules may call a tool beside its id."""
    name = tool.spec.name
    return (*tool.names, f"skill:{name}") if tool.spec.source == "custom" else (*tool.names, *_ALIASES.get(name, ()))


def _capabilities(requires: RequirementSet) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What rules must allow, and what comes along with it: whoever runs a program reads and writes by it."""
    files = tuple(f"fs.{kind}" for kind in ("read", "write") if getattr(requires.fs, kind))
    touched = (*files, "net.fetch") if requires.net.hosts else files
    own = tuple(requires.capabilities)
    if requires.shell:
        return ("shell.run",), (*touched, *own)
    return (own, touched) if own else (touched, ())


def _reason(tool: Tool, reach: AccessRequest, decision: Decision, context: ToolContext) -> str:
    subject = decision.subject if len(decision.subject) <= SHOWN else f"{decision.subject[:SHOWN]}..."
    what = f"{tool.spec.name} {subject}".strip()
    rule = decision.rule
    if rule is None:
        why = f"; only one for * does, because {reach.opaque}" if reach.opaque else ""
        return f"{what}: no rule of agent {context.agent} covers it{why}"
    says = "forbids it" if rule.action == "deny" else "asks for approval"
    why = ", and it cannot be told what this runs" if reach.anything else ""
    return f"{what}: a {rule.source} rule for {rule.permission} {rule.pattern} {says}{why}"


def _always(tool: Tool, reach: AccessRequest, decision: Decision) -> tuple[NewRule, ...]:
    """What a person would allow for good: calls of this kind, and no more than the rule that asks is about."""
    if decision.action != "ask":
        return ()
    kinds, asks = reach.habits or reach.subjects, decision.rule
    if asks is not None:
        kinds = tuple(asks.pattern if covers(one, asks.pattern) else one for one in reach.habits) or (asks.pattern,)
    return _rules(tool, reach, kinds)


def _rules(tool: Tool, reach: AccessRequest, patterns: Sequence[str]) -> tuple[NewRule, ...]:
    """The tool allowed for these patterns; none where they would not do, or are too many: that is allowed once only."""
    # What is no text becomes a question mark, which is any one character.
    texts = dict.fromkeys(pattern.encode(errors="replace").decode() or "*" for pattern in patterns)
    if reach.opaque or len(texts) > MOST_SUGGESTED or any(len(text) > LONGEST for text in texts):
        return ()
    return tuple(NewRule(permission=tool.spec.name, pattern=text, action="allow") for text in texts)
