"""Decide which rule holds for a call (docs/reference/permissions.md#which-rule-holds).

Of the matching rules the most specific one holds: a rule yields to one that names the tool at least as exactly and
whose pattern covers no more. Among equally specific rules the narrower scope holds: session before agent before project
before manifest. A deny yields only to rules of its own scope. Among rules that cannot be compared, the strictest holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from ..permission import Action, Rule, Scope
from .coverage import Coverage, coverage_of
from .globs import ANY, matches, matches_any_continuation

STRICTNESS: dict[Action, int] = {"allow": 0, "ask": 1, "deny": 2}
_SCOPES: dict[Scope, int] = {"manifest": 0, "project": 1, "agent": 2, "session": 3}
_OF_A_PERSON = frozenset({"agent", "session"})


@dataclass(frozen=True, slots=True)
class Access:
    """Everything that one call touches."""

    tool: str
    names: tuple[str, ...] = ()
    """Further names of the tool itself, such as `skill:NAME` and `mcp:SERVER:TOOL`."""
    capabilities: tuple[str, ...] = ()
    """Capabilities that the call uses. Each of them must be allowed."""
    implied: tuple[str, ...] = ()
    """Capabilities that the call may also use. A rule may deny them as a whole, but they need not be allowed."""
    subjects: tuple[str, ...] = ("",)
    """The paths, commands or hosts that the call touches. Each of them must be allowed."""
    aliases: tuple[tuple[str, ...], ...] = ()
    """Other names of the first subjects, in their order. Rules that ask or deny also match these names."""
    starts: Mapping[str, str] = field(default_factory=dict[str, str])
    """Subjects of which only this prefix is certain. An allow rule must match every continuation of it."""
    opaque: bool = False
    """Whether the call may touch more than its subjects, so that only a rule for everything can allow it."""
    anything: bool = False
    """For an opaque call: whether nothing is known about it, so that every rule that asks or denies matches."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision on a call, and the rule that made it; None if no rule covers the call."""

    action: Action
    rule: Rule | None = None
    subject: str = ""

    @property
    def by_person(self) -> bool:
        """Whether a rule decided that a person has set, for the session or for all their sessions with the agent."""
        return self.rule is not None and self.rule.source in _OF_A_PERSON


def decide(rules: Sequence[Rule], access: Access) -> Decision:
    """Return the strictest decision over everything that the call touches. The answer is `ask` if no rule covers it."""
    called = [(one, *_aliases(access, number)) for number, one in enumerate(access.subjects)]
    answers = [
        _decide(rules, access, capability, subject)
        for capability in access.capabilities or ("",)
        for subject in (*called, *([None] if access.opaque else []))
    ]
    answers += [
        Decision("deny", rule)
        for rule in rules
        if rule.action == "deny"
        and _is_any(rule.pattern)
        and any(_specificity(rule.permission, (), one) for one in access.implied)
        if not _is_any(rule.permission)
    ]
    return strictest(answers)


def strictest(answers: Iterable[Decision]) -> Decision:
    """Return the strictest decision. Among equally strict ones, prefer one that no rule of a person made, because the
    result counts as a person's decision only if a person has decided on everything."""
    return max(answers, key=lambda answer: (STRICTNESS[answer.action], not answer.by_person))


def _aliases(access: Access, number: int) -> tuple[str, ...]:
    return access.aliases[number] if number < len(access.aliases) else ()


def _decide(rules: Sequence[Rule], access: Access, capability: str, subject: tuple[str, ...] | None) -> Decision:
    """Decide on one subject, given with its aliases, or on everything else that may be touched if it is None."""
    names = (access.tool, *access.names)
    found = [
        (rank, at)
        for at, rule in enumerate(rules)
        if (rank := _specificity(rule.permission, names, capability)) and _touches(rule, subject, access)
    ]
    found.sort(key=lambda one: STRICTNESS[rules[one[1]].action], reverse=True)
    groups: dict[tuple[int, Scope], int] = {}
    for rank, at in found:
        group = rank, rules[at].source
        groups[group] = groups.get(group, 0) | 1 << at
    coverage = coverage_of(tuple(rule.pattern for rule in rules))
    shown = subject[0] if subject is not None else "; ".join(access.subjects)
    for rank, at in found:
        if not _is_beaten(rules[at], rank, at, groups, coverage):
            return Decision(rules[at].action, rules[at], shown)
    return Decision("ask", None, shown)


@lru_cache(maxsize=4096)
def _specificity(permission: str, names: tuple[str, ...], capability: str) -> int:
    """Return how exactly a rule for `permission` names the tool, from 0 (not at all) to 4 (by its name)."""
    if permission in names:
        return 4
    if permission == capability:
        return 3
    if not any(matches(permission, name) for name in (*names, capability) if name):
        return 0
    return 1 if _is_any(permission) else 2


def _touches(rule: Rule, subject: tuple[str, ...] | None, access: Access) -> bool:
    """Whether a rule applies to a subject. None means everything else that may be touched: then an allow rule must
    cover everything, and other rules apply if they match what is known of the call."""
    if subject is None:
        known = access.anything or any(matches(rule.pattern, one) for one in access.subjects)
        return _is_any(rule.pattern) or (rule.action != "allow" and known)
    if rule.action == "allow" and subject[0] in access.starts:
        return matches_any_continuation(rule.pattern, access.starts[subject[0]])
    return any(matches(rule.pattern, name) for name in (subject[:1] if rule.action == "allow" else subject))


def _is_beaten(rule: Rule, rank: int, at: int, groups: Mapping[tuple[int, Scope], int], coverage: Coverage) -> bool:
    """Whether a rule yields to another one of those that apply, given by rank and scope as masks of their places."""
    for (other_rank, source), others in groups.items():
        if other_rank < rank or (rule.action == "deny" and source != rule.source):
            continue
        covered, narrower = coverage.covered_by(at, others)
        if narrower or (covered and (other_rank > rank or _SCOPES[source] > _SCOPES[rule.source])):
            return True
    return False


def _is_any(pattern: str) -> bool:
    return not pattern.strip(ANY)
