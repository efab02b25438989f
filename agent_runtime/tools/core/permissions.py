"""The capability step of the gate: grants, then rules. What no grant covers is an error, what no rule covers asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agent_common.protocol import NewRule, RequirementSet
from agent_common.protocol.authority import Access, Decision, covers

from ...ports import ToolContext
from .contract import TOOL_ALIASES, AccessRequest, Tool
from .verdict import Verdict

MAX_SUBJECT_SHOWN = 200
"""Characters of a subject that a reason repeats."""
MAX_PATTERN_LENGTH = 1000
"""Characters of a pattern."""
MAX_SUGGESTED_RULES = 10
"""Rules that one approval may add."""
_ALIASES_BY_NAME = {
    name: tuple(alias for alias in TOOL_ALIASES if TOOL_ALIASES[alias] == name) for name in TOOL_ALIASES.values()
}
"""The same by the name that they stand for."""


class PermissionCheck:
    """Asks the authority that the call comes with."""

    async def check(self, tool: Tool, arguments: Mapping[str, Any], context: ToolContext) -> Verdict:
        """Raises ToolFailure when the arguments do not even say what they touch."""
        if not context.authority.offers(tool.spec.name, *rule_aliases(tool)):
            return Verdict("deny", f"{tool.spec.name} is refused: agent {context.agent} does not have it")
        reach = await tool.describe_access(arguments, context) if tool.describe_access else AccessRequest()
        lacks = context.authority.missing_grant(reach.requires or tool.requires, context.variables)
        if lacks is not None:
            return Verdict("deny", f"{tool.spec.name} is refused: agent {context.agent} may not {lacks}")
        decision = context.authority.decide(build_access(tool, reach))
        if decision.action == "allow":
            always = _allow_rules(tool, reach, [subject.replace("*", "?") for subject in reach.subjects])
            return Verdict(always=always, touches=reach.subjects, by_person=decision.by_person)
        always = _suggested_rules(tool, reach, decision)
        return Verdict(decision.action, _reason(tool, reach, decision, context), always=always, touches=reach.subjects)


def build_access(tool: Tool, request: AccessRequest) -> Access:
    """A call as the rules see it."""
    own, implied = _capabilities(tool.requires)
    name = tool.spec.name
    return Access(
        name,
        rule_aliases(tool),
        own,
        implied,
        request.subjects,
        request.aliases,
        request.starts,
        opaque=bool(request.opaque),
        anything=request.anything,
    )


def rule_aliases(tool: Tool) -> tuple[str, ...]:
    """How rules may call a tool beside its id."""
    name = tool.spec.name
    return (
        (*tool.rule_names, f"skill:{name}")
        if tool.spec.source == "custom"
        else (*tool.rule_names, *_ALIASES_BY_NAME.get(name, ()))
    )


def _capabilities(requires: RequirementSet) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What rules must allow, and what comes along with it: whoever runs a program reads and writes by it."""
    files = tuple(f"fs.{kind}" for kind in ("read", "write") if getattr(requires.fs, kind))
    touched = (*files, "net.fetch") if requires.net.hosts else files
    own = tuple(requires.capabilities)
    if requires.shell:
        return ("shell.run",), (*touched, *own)
    return (own, touched) if own else (touched, ())


def _reason(tool: Tool, request: AccessRequest, decision: Decision, context: ToolContext) -> str:
    subject = (
        decision.subject if len(decision.subject) <= MAX_SUBJECT_SHOWN else f"{decision.subject[:MAX_SUBJECT_SHOWN]}..."
    )
    what = f"{tool.spec.name} {subject}".strip()
    rule = decision.rule
    if rule is None:
        why = f"; only one for * does, because {request.opaque}" if request.opaque else ""
        return f"{what}: no rule of agent {context.agent} covers it{why}"
    says = "forbids it" if rule.action == "deny" else "asks for approval"
    why = ", and it cannot be told what this runs" if request.anything else ""
    return f"{what}: a {rule.source} rule for {rule.permission} {rule.pattern} {says}{why}"


def _suggested_rules(tool: Tool, request: AccessRequest, decision: Decision) -> tuple[NewRule, ...]:
    """What a person would allow for good: calls of this kind, and no more than the rule that asks is about."""
    if decision.action != "ask":
        return ()
    kinds, asks = request.suggested_patterns or request.subjects, decision.rule
    if asks is not None:
        kinds = tuple(asks.pattern if covers(one, asks.pattern) else one for one in request.suggested_patterns) or (
            asks.pattern,
        )
    return _allow_rules(tool, request, kinds)


def _allow_rules(tool: Tool, request: AccessRequest, patterns: Sequence[str]) -> tuple[NewRule, ...]:
    """The tool allowed for these patterns; none where they would not do, or are too many: that is allowed once only."""
    # What is no text becomes a question mark, which is any one character.
    texts = dict.fromkeys(pattern.encode(errors="replace").decode() or "*" for pattern in patterns)
    if request.opaque or len(texts) > MAX_SUGGESTED_RULES or any(len(text) > MAX_PATTERN_LENGTH for text in texts):
        return ()
    return tuple(NewRule(permission=tool.spec.name, pattern=text, action="allow") for text in texts)
