"""The rule that holds, against a second opinion that was written from the rules of the house and not from the code."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from pydantic import ValidationError

from agent_common.net import canonical_host
from agent_common.protocol import AgentRule, NewRule, Rule, SessionRule
from agent_common.protocol.authority import Access, decide

from .pairwise import pairwise_decide
from .written import TEXTS, accesses, beginnings, fits, rules

STRICTNESS = ("allow", "ask", "deny")
SCOPES = ("manifest", "project", "session")


def opinion(rules: Sequence[Rule], access: Access) -> str:
    """Brute force: every pair of a capability and a subject, every rule against every other."""
    heard: list[str] = []
    for capability in access.capabilities or ("",):
        for number, subject in enumerate(access.subjects):
            others = access.aliases[number] if number < len(access.aliases) else ()
            heard.append(one_opinion(rules, access, capability, [subject], others))
        if access.opaque:
            heard.append(one_opinion(rules, access, capability, access.subjects, anything=True))
    for rule in rules:
        about = any(fits(rule.permission, capability) for capability in access.implied)
        if rule.action == "deny" and all_stars(rule.pattern) and about and not all_stars(rule.permission):
            heard.append("deny")
    return max(heard, key=STRICTNESS.index)


def one_opinion(
    rules: Sequence[Rule],
    access: Access,
    capability: str,
    subjects: Sequence[str],
    others: Sequence[str] = (),
    *,
    anything: bool = False,
) -> str:
    matching = [
        rule
        for rule in rules
        if rank(rule, access, capability)
        and (
            speaks_of(rule, access, subjects, anything)
            or (rule.action != "allow" and any(fits(rule.pattern, other) for other in others))
        )
    ]
    maximal = [
        rule
        for rule in matching
        if not any(is_above(other, rule, access, capability) for other in matching if other is not rule)
    ]
    assert bool(maximal) == bool(matching)
    return max((rule.action for rule in maximal), key=STRICTNESS.index, default="ask")


def rank(rule: Rule, access: Access, capability: str) -> int:
    called = [access.tool, *access.names]
    if rule.permission in called:
        return 4
    if capability and rule.permission == capability:
        return 3
    if any(fits(rule.permission, name) for name in [*called, *([capability] if capability else [])]):
        return 1 if all_stars(rule.permission) else 2
    return 0


def speaks_of(rule: Rule, access: Access, subjects: Sequence[str], anything: bool) -> bool:
    if anything and (rule.action == "allow" or all_stars(rule.pattern)):
        return all_stars(rule.pattern)
    if anything and access.anything:
        return True
    if rule.action == "allow":
        return any(fits_from(rule.pattern, subject, access.starts) for subject in subjects)
    return any(fits(rule.pattern, subject) for subject in subjects)


def fits_from(pattern: str, subject: str, starts: Mapping[str, str]) -> bool:
    """A subject of which only the start is known may go on in any way."""
    start = starts.get(subject)
    if start is None:
        return fits(pattern, subject)
    return pattern.endswith("*") and fits(pattern, start) and fits(pattern, f"{start}\uffff")


def is_above(one: Rule, other: Rule, access: Access, capability: str) -> bool:
    """A partial order; a deny is below nothing of another scope."""
    if other.action == "deny" and one.source != other.source:
        return False
    ranks = rank(one, access, capability), rank(other, access, capability)
    here, there = language(one.pattern), language(other.pattern)
    if ranks[0] < ranks[1] or not here <= there:
        return False
    return ranks[0] > ranks[1] or here < there or SCOPES.index(one.source) > SCOPES.index(other.source)


def language(pattern: str) -> frozenset[str]:
    return frozenset(text for text in TEXTS if fits(pattern, text))


def all_stars(pattern: str) -> bool:
    return set(pattern) == {"*"}


@given(rules(beginnings), accesses)
def test_both_opinions_agree(written: list[Rule], access: Access) -> None:
    assert decide(written, access).action == opinion(written, access)


@given(rules(), accesses)
def test_patterns_that_are_hard_to_compare_never_allow_more(written: list[Rule], access: Access) -> None:
    assert STRICTNESS.index(decide(written, access).action) >= STRICTNESS.index(opinion(written, access))


@given(rules(), accesses)
def test_the_order_in_which_rules_are_written_means_nothing(written: list[Rule], access: Access) -> None:
    assert decide(written, access).action == decide(written[::-1], access).action


@given(rules(), rules(), accesses)
def test_a_deny_of_another_scope_is_never_brought_back(written: list[Rule], more: list[Rule], access: Access) -> None:
    denied = [rule for rule in written if rule.source == "manifest"]
    others = [rule for rule in more if rule.source != "manifest"]
    if decide(denied, access).action == "deny":
        assert decide([*denied, *others], access).action == "deny"


@given(rules(), accesses)
def test_a_decision_names_a_rule_that_says_so(written: list[Rule], access: Access) -> None:
    decision = decide(written, access)
    assert decision.action == ("ask" if decision.rule is None else decision.rule.action)


def rule(permission: str, pattern: str, action: str, source: str = "manifest") -> Rule:
    return Rule.model_validate({"permission": permission, "pattern": pattern, "action": action, "source": source})


GIT = Access("bash", capabilities=("shell.run",), subjects=("git push origin",))


@pytest.mark.parametrize(
    ("written", "answer"),
    [
        ([], "ask"),
        ([rule("*", "*", "allow")], "allow"),
        ([rule("bash", "*", "allow"), rule("bash", "git push *", "ask")], "ask"),
        ([rule("bash", "git push *", "ask"), rule("bash", "git push *", "allow", "session")], "allow"),
        ([rule("bash", "git push *", "deny"), rule("bash", "git push *", "allow", "session")], "deny"),
        ([rule("bash", "git *", "deny"), rule("bash", "git push *", "allow")], "allow"),
        ([rule("bash", "git *", "deny", "project"), rule("bash", "git push *", "allow")], "deny"),
        ([rule("shell.run", "*", "deny"), rule("bash", "*", "allow")], "allow"),
        ([rule("shell.run", "*", "deny", "project"), rule("bash", "*", "allow", "session")], "deny"),
        ([rule("bash", "git *", "allow"), rule("bash", "* origin", "deny")], "deny"),
    ],
)
def test_examples(written: list[Rule], answer: str) -> None:
    assert decide(written, GIT).action == answer


@given(rules(), accesses)
def test_a_person_has_allowed_only_what_they_have_allowed_all_of(rules: list[Rule], access: Access) -> None:
    said = decide(rules, access)
    if said.action == "allow" and said.by_person:
        for subject in access.subjects:
            alone = decide(rules, replace(access, subjects=(subject,), opaque=False, anything=False, aliases=()))
            assert (alone.action, alone.by_person) == ("allow", True)


@given(rules(), accesses)
def test_the_same_rule_holds_as_when_each_is_compared_with_each(written: list[Rule], access: Access) -> None:
    assert decide(written, access) == pairwise_decide(written, access)


def nested(number: int) -> str:
    return "?" * (500 + number) + "*"


def with_signs_between(number: int) -> str:
    return "*" + "a?" * (100 + number) + "b" * 3 + "*"


def with_many_stars(number: int) -> str:
    return "a*" * (100 + number)


@pytest.mark.slow  # measures a duration
@pytest.mark.parametrize("written", [nested, with_signs_between, with_many_stars])
def test_many_rules_and_many_subjects_take_no_time(written: Callable[[int], str]) -> None:
    patterns = [written(number) for number in range(200)]
    several = [rule("bash", pattern, "allow", scope) for scope in ("agent", "session") for pattern in patterns]
    subjects = tuple("a" * 900 + f"bbb{number}" for number in range(12))
    began = time.process_time()
    assert decide(several, Access("bash", subjects=subjects)).action == "allow"
    assert time.process_time() - began < 15, "it would be minutes if each subject took as long as the first"


@pytest.mark.parametrize(
    "host", ["Example.org", "bücher.example.", "straße.example", "faß。example", "xn--bcher-kva.example"]
)
def test_hosts_in_rules_are_written_as_hosts_of_calls_are(host: str) -> None:
    written = NewRule(permission="web_fetch", pattern=host, action="deny")
    assert written.pattern == canonical_host(host)
    below = NewRule(permission="web_fetch", pattern=f"*.{host}", action="deny")
    assert below.pattern == f"*.{canonical_host(host)}"


@pytest.mark.parametrize("kind", [SessionRule, AgentRule])
def test_a_rule_of_a_person_has_few_stars(kind: type[SessionRule | AgentRule]) -> None:
    assert kind(permission="bash", pattern="*a" * 20, action="allow").pattern == "*a" * 20
    with pytest.raises(ValidationError, match="has at most 20 stars"):
        kind(permission="bash", pattern="*a" * 21, action="allow")
    stored = Rule(permission="bash", pattern="*a" * 21, action="allow")
    assert decide([stored], Access("bash", subjects=("a" * 21,))).action == "allow", "one that is stored already holds"
