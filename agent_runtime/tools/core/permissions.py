"""The permission check of the gate: grants, then rules. A missing grant is an error; without a rule a person is
asked."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from agent_common.protocol import NewRule, RequirementSet
from agent_common.protocol.authority import MAX_PATTERN_STARS, Access, Authority, Decision, covers

from ...ports import ToolContext
from .contract import TOOL_ALIASES, AccessRequest, Tool
from .verdict import Verdict

MAX_SUBJECT_SHOWN = 200
"""Maximum characters of a subject repeated in a reason."""
MAX_PATTERN_LENGTH = 1000
"""Maximum characters of a pattern."""
MAX_SUGGESTED_RULES = 10
"""Maximum rules that one approval adds."""
INLINE_WORK_LIMIT = 30_000_000
"""Characters of patterns times characters that they are compared with, for a decision on the event loop: there, calls
of one step keep their order."""
_SIZE_OF_ONE = 10
"""Characters that a pattern or a subject counts besides its own."""
_ALIASES_BY_NAME = {
    name: tuple(alias for alias in TOOL_ALIASES if TOOL_ALIASES[alias] == name) for name in TOOL_ALIASES.values()
}
"""Tool name -> its aliases."""


class PermissionCheck:
    """Checks a call against the authority in its context."""

    async def check(self, tool: Tool, arguments: Mapping[str, Any], context: ToolContext) -> Verdict:
        """Return the verdict for a call. Raises ToolFailure if the arguments do not even tell what it accesses."""
        if not context.authority.offers(tool.spec.name, *rule_aliases(tool)):
            return Verdict("deny", f"{tool.spec.name} is refused: agent {context.agent} does not have it")
        request = await tool.describe_access(arguments, context) if tool.describe_access else AccessRequest()
        lacks = context.authority.missing_grant(request.requires or tool.requires, context.variables)
        if lacks is not None:
            return Verdict("deny", f"{tool.spec.name} is refused: agent {context.agent} may not {lacks}")
        decision = await _decide(context.authority, build_access(tool, request))
        touches = (*request.subjects, tool.build) if tool.build else request.subjects
        if decision.action == "allow" and request.asks and not _names(decision, request.subjects):
            always = _allow_rules(tool, request, request.subjects)
            return Verdict("ask", f"{tool.spec.name} {request.asks}", always=always, touches=touches)
        if decision.action == "allow":
            always = _allow_rules(tool, request, [subject.replace("*", "?") for subject in request.subjects])
            return Verdict(always=always, touches=touches, by_person=decision.by_person)
        always = _suggested_rules(tool, request, decision)
        return Verdict(decision.action, _reason(tool, request, decision, context), always=always, touches=touches)


def build_access(tool: Tool, request: AccessRequest) -> Access:
    """Return a call as the rules see it."""
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
    """Return the names, besides the id, by which rules may refer to a tool."""
    name = tool.spec.name
    return (
        (*tool.rule_names, f"skill:{name}")
        if tool.spec.source == "custom"
        else (*tool.rule_names, *_ALIASES_BY_NAME.get(name, ()))
    )


async def _decide(authority: Authority, access: Access) -> Decision:
    """Return the decision, made in a thread if it may take long: people write hundreds of rules, and models scripts of
    thousands of commands."""
    rules = chain.from_iterable(layer.rules or () for layer in authority.layers)
    written = sum(len(rule.pattern) + _SIZE_OF_ONE for rule in rules)
    touched = sum(len(one) + _SIZE_OF_ONE for one in chain(access.subjects, *access.aliases))
    if written * (written + touched) <= INLINE_WORK_LIMIT:
        return authority.decide(access)
    return await asyncio.to_thread(authority.decide, access)


def _capabilities(requires: RequirementSet) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the capabilities that rules must allow, and those implied by them: a program that runs can read and
    write."""
    files = tuple(f"fs.{kind}" for kind in ("read", "write") if getattr(requires.fs, kind))
    touched = (*files, "net.fetch") if requires.net.hosts else files
    own = tuple(requires.capabilities)
    if requires.shell:
        return ("shell.run",), (*touched, *own)
    return (own, touched) if own else (touched, ())


def _names(decision: Decision, subjects: Sequence[str]) -> bool:
    """Return whether the rule that decides is one for these subjects and for nothing else."""
    return decision.rule is not None and all(decision.rule.pattern == subject for subject in subjects)


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
    """Return the rules for the decision `always`: calls of this kind, but no more than the asking rule covers."""
    # What is too long for a rule is not compared with one either: it may be a script of 120 KB.
    if decision.action != "ask" or any(len(one) > MAX_PATTERN_LENGTH for one in request.suggested_patterns):
        return ()
    kinds = request.suggested_patterns or request.subjects
    asks = decision.rule
    if asks is not None:
        kinds = tuple(asks.pattern if covers(one, asks.pattern) else one for one in request.suggested_patterns) or (
            asks.pattern,
        )
    return _allow_rules(tool, request, kinds)


def _allow_rules(tool: Tool, request: AccessRequest, patterns: Sequence[str]) -> tuple[NewRule, ...]:
    """Return rules that allow the tool for these patterns; none if the rules would not suffice or be too many, so that
    the call can only be allowed once."""
    # Characters that are not valid text become question marks, which match any character.
    texts = dict.fromkeys(pattern.encode(errors="replace").decode() or "*" for pattern in patterns)
    if request.opaque or len(texts) > MAX_SUGGESTED_RULES or not all(map(_fits_in_a_rule, texts)):
        return ()
    return tuple(NewRule(permission=tool.spec.name, pattern=text, action="allow") for text in texts)


def _fits_in_a_rule(pattern: str) -> bool:
    return len(pattern) <= MAX_PATTERN_LENGTH and pattern.count("*") <= MAX_PATTERN_STARS
