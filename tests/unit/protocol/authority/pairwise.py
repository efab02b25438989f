"""The rule that holds, found by comparing each rule with each other: slow and plain."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent_common.protocol import Rule
from agent_common.protocol.authority import Access, Decision, matches
from agent_common.protocol.authority.globs import matches_any_continuation

STRICTNESS = {"allow": 0, "ask": 1, "deny": 2}
SCOPES = {"manifest": 0, "project": 1, "agent": 2, "session": 3}

Found = tuple[int, Rule]


def pairwise_decide(rules: Sequence[Rule], access: Access) -> Decision:
    called = [(one, *access.aliases[at : at + 1]) for at, one in enumerate(access.subjects)]
    subjects = [(one, *(aliases[0] if aliases else ())) for one, *aliases in called]
    answers = [
        _decide(rules, access, capability, subject)
        for capability in access.capabilities or ("",)
        for subject in (*subjects, *([None] if access.opaque else []))
    ]
    answers += [
        Decision("deny", rule)
        for rule in rules
        if rule.action == "deny"
        and not rule.pattern.strip("*")
        and any(_rank(rule.permission, (), one) for one in access.implied)
        if rule.permission.strip("*")
    ]
    return max(answers, key=lambda answer: (STRICTNESS[answer.action], not answer.by_person))


def _decide(rules: Sequence[Rule], access: Access, capability: str, subject: tuple[str, ...] | None) -> Decision:
    names = (access.tool, *access.names)
    found = [
        (rank, rule)
        for rule in rules
        if (rank := _rank(rule.permission, names, capability)) and _touches(rule, subject, access)
    ]
    found.sort(key=lambda one: STRICTNESS[one[1].action], reverse=True)
    shown = subject[0] if subject is not None else "; ".join(access.subjects)
    for one in found:
        if not any(_beats(other, one) for other in found):
            return Decision(one[1].action, one[1], shown)
    return Decision("ask", None, shown)


def _rank(permission: str, names: tuple[str, ...], capability: str) -> int:
    if permission in names:
        return 4
    if permission == capability:
        return 3
    if not any(matches(permission, name) for name in (*names, capability) if name):
        return 0
    return 2 if permission.strip("*") else 1


def _touches(rule: Rule, subject: tuple[str, ...] | None, access: Access) -> bool:
    if subject is None:
        known = access.anything or any(matches(rule.pattern, one) for one in access.subjects)
        return not rule.pattern.strip("*") or (rule.action != "allow" and known)
    if rule.action == "allow" and subject[0] in access.starts:
        return matches_any_continuation(rule.pattern, access.starts[subject[0]])
    return any(matches(rule.pattern, name) for name in (subject[:1] if rule.action == "allow" else subject))


def _beats(one: Found, other: Found) -> bool:
    (rank, rule), (other_rank, other_rule) = one, other
    if other_rule.action == "deny" and rule.source != other_rule.source:
        return False
    if rank < other_rank or not stepwise_covers(other_rule.pattern, rule.pattern):
        return False
    more_exact = rank > other_rank or not stepwise_covers(rule.pattern, other_rule.pattern)
    return more_exact or SCOPES[rule.source] > SCOPES[other_rule.source]


def stepwise_covers(wide: str, narrow: str) -> bool:
    return all(any(_covers(one, form) for one in _forms(wide)) for form in _forms(narrow))


def _forms(pattern: str) -> tuple[str, ...]:
    plain = re.sub(r"\*+", "*", pattern)
    return (plain, plain[:-2]) if plain.endswith(" *") else (plain,)


def _covers(wide: str, narrow: str) -> bool:
    """Go through the narrow pattern sign by sign, with all places in the wide one where it may have come to."""
    reached = _over_stars(wide, {0})
    for sign in narrow:
        stay = {at for at in reached if at < len(wide) and wide[at] == "*"}
        step = {at + 1 for at in reached if at < len(wide) and sign != "*" and wide[at] in ("?", sign)}
        reached = _over_stars(wide, stay | step)
    return len(wide) in reached


def _over_stars(wide: str, reached: set[int]) -> set[int]:
    return reached | {at + 1 for at in reached if at < len(wide) and wide[at] == "*"}
