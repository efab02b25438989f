"""Nobody gives more than he has: a child's authority is never wider than its parent's."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from agent_common.protocol import RequirementSet, Rule
from agent_common.protocol.authority import ALL_GRANTED, Access, Authority, Layer

from .written import VALUES, accesses, layers, requirements, rules

STRICTNESS = ("allow", "ask", "deny")
session_rules = rules().map(lambda found: tuple(rule.model_copy(update={"source": "session"}) for rule in found))
chains = st.lists(st.tuples(layers, st.none() | session_rules), min_size=1, max_size=5)


def descend(chain: list[tuple[Layer, tuple[Rule, ...] | None]]) -> list[Authority]:
    """The authority of each one in a line of callers; on the way somebody may set the rules of a session."""
    line = [Authority()]
    for layer, changed in chain:
        line.append(line[-1].with_layer(replace(layer, rules=(*(layer.rules or ()), *changed)) if changed else layer))
    return line


@given(chains, accesses, requirements)
def test_no_descendant_may_do_more(
    chain: list[tuple[Layer, tuple[Rule, ...] | None]], access: Access, wanted: RequirementSet
) -> None:
    line = descend(chain)
    for upper, lower in pairwise(line):
        assert STRICTNESS.index(lower.decide(access).action) >= STRICTNESS.index(upper.decide(access).action)
        if lower.missing_grant(wanted, VALUES) is None:
            assert upper.missing_grant(wanted, VALUES) is None
        if lower.offers("bash", "skill:x"):
            assert upper.offers("bash", "skill:x")


@given(chains, session_rules, accesses)
def test_what_is_taken_from_a_caller_is_taken_from_all_below(
    chain: list[tuple[Layer, tuple[Rule, ...] | None]], taken: tuple[Rule, ...], access: Access
) -> None:
    top, *below = chain
    narrowed = descend([(top[0], taken), *below])
    for lower in narrowed[1:]:
        assert STRICTNESS.index(lower.decide(access).action) >= STRICTNESS.index(narrowed[1].decide(access).action)


@given(accesses, requirements)
def test_a_layer_that_says_nothing_takes_nothing_away(access: Access, wanted: RequirementSet) -> None:
    everything = Authority((Layer(grant=wanted),))
    assert everything.with_layer(Layer(grant=wanted)).missing_grant(wanted, VALUES) == everything.missing_grant(
        wanted, VALUES
    )
    assert Authority().with_layer(Layer()).decide(access).action == "allow"


def test_the_ceiling_leaves_out_what_is_outside() -> None:
    for folder in ("/etc", "{user-data}", "{workspace}/../x"):
        assert Authority().missing_grant(RequirementSet.model_validate({"fs": {"read": [folder]}}), VALUES) is not None
    assert Authority().missing_grant(ALL_GRANTED, VALUES) is None
