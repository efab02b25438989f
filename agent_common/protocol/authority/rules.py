"""Decide which rule holds for a call (docs/reference/permissions.md#which-rule-holds).

Of the rules that match, the most specific hold: a rule gives way to one that names the tool at least as exactly and
whose pattern covers no more. Between equally specific rules the narrower scope holds: session over project over
manifest. A deny gives way only to rules of its own scope. Of rules that cannot be compared the strictest holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ..permission import Action, Rule
from .globs import ANY, covers, matches, matches_any_continuation

STRICTNESS: dict[Action, int] = {"allow": 0, "ask": 1, "deny": 2}
_SCOPES = {"manifest": 0, "project": 1, "session": 2}


@dataclass(frozen=True, slots=True)
class Access:
    """What one call wants to do."""

    tool: str
    names: tuple[str, ...] = ()
    """Further names of the tool itself, such as `skill:NAME` and `mcp:SERVER:TOOL`."""
    capabilities: tuple[str, ...] = ()
    """Each of them must be allowed."""
    implied: tuple[str, ...] = ()
    """Capabilities that come along: a rule may deny them as a whole, but need not allow them."""
    subjects: tuple[str, ...] = ("",)
    """What it touches; each of them must be allowed."""
    aliases: tuple[tuple[str, ...], ...] = ()
    """For the first subjects, other names of each: a rule that does not allow may call it by them too."""
    starts: Mapping[str, str] = field(default_factory=dict[str, str])
    """Subjects of which only this beginning is certain: a rule that allows must allow whatever follows."""
    opaque: bool = False
    """More than the subjects may be touched, so that only a rule about everything can allow it."""
    anything: bool = False
    """Of what is opaque: nothing at all is known, so that every rule that does not allow is about it."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What the rules say, and which one of them. None: no rule covers the call."""

    action: Action
    rule: Rule | None = None
    subject: str = ""

    @property
    def by_person(self) -> bool:
        """Somebody has said so in this session."""
        return self.rule is not None and self.rule.source == "session"


def decide(rules: Sequence[Rule], access: Access) -> Decision:
    """The strictest answer over everything the call touches. What no rule covers asks."""
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
        and any(_specificity(rule, (), one) for one in access.implied)
        if not _is_any(rule.permission)
    ]
    return strictest(answers)


def strictest(answers: Iterable[Decision]) -> Decision:
    """Of answers as strict as each other, one that nobody has given in this session: a person's word counts as such
    only where it was given about everything."""
    return max(answers, key=lambda answer: (STRICTNESS[answer.action], not answer.by_person))


def _aliases(access: Access, number: int) -> tuple[str, ...]:
    return access.aliases[number] if number < len(access.aliases) else ()


def _decide(rules: Sequence[Rule], access: Access, capability: str, subject: tuple[str, ...] | None) -> Decision:
    """`subject` is one of them with its other names, or None for whatever else may be touched."""
    names = (access.tool, *access.names)
    found = [
        (rank, rule)
        for rule in rules
        if (rank := _specificity(rule, names, capability)) and _touches(rule, subject, access)
    ]
    found.sort(key=lambda one: STRICTNESS[one[1].action], reverse=True)
    shown = subject[0] if subject is not None else "; ".join(access.subjects)
    for one in found:
        if not any(_beats(other, one) for other in found):
            return Decision(one[1].action, one[1], shown)
    return Decision("ask", None, shown)


def _specificity(rule: Rule, names: tuple[str, ...], capability: str) -> int:
    """How exactly a rule names the tool; 0: not at all."""
    if rule.permission in names:
        return 4
    if rule.permission == capability:
        return 3
    if not any(matches(rule.permission, name) for name in (*names, capability) if name):
        return 0
    return 1 if _is_any(rule.permission) else 2


def _touches(rule: Rule, subject: tuple[str, ...] | None, access: Access) -> bool:
    """Whether a rule is about this subject. None stands for whatever else may be touched: a rule that allows must then
    be about everything, one that does not may be about what is known of the call."""
    if subject is None:
        known = access.anything or any(matches(rule.pattern, one) for one in access.subjects)
        return _is_any(rule.pattern) or (rule.action != "allow" and known)
    if rule.action == "allow" and subject[0] in access.starts:
        return matches_any_continuation(rule.pattern, access.starts[subject[0]])
    return any(matches(rule.pattern, name) for name in (subject[:1] if rule.action == "allow" else subject))


def _beats(one: tuple[int, Rule], other: tuple[int, Rule]) -> bool:
    (rank, rule), (other_rank, other_rule) = one, other
    if other_rule.action == "deny" and rule.source != other_rule.source:
        return False
    if rank < other_rank or not covers(other_rule.pattern, rule.pattern):
        return False
    more_exact = rank > other_rank or not covers(rule.pattern, other_rule.pattern)
    return more_exact or _SCOPES[rule.source] > _SCOPES[other_rule.source]


def _is_any(pattern: str) -> bool:
    return not pattern.strip(ANY)
