"""The same attempts against a runtime without confinement, in a disposable container: this shows that they are real."""

from __future__ import annotations

import pytest

from .__main__ import table
from .arena import outcomes
from .case import CATEGORIES
from .ground import Ground
from .play import Outcome

pytestmark = [pytest.mark.slow, pytest.mark.machine, pytest.mark.timeout(480)]

REAL = 20
"""Attempts that must succeed at the very least."""


@pytest.fixture(scope="module")
def bare() -> dict[str, Outcome]:
    return {one.name: one for one in outcomes(Ground("off", "own"))}


def test_attempts_succeed_without_confinement(bare: dict[str, Outcome]) -> None:
    print(table({"bare": bare}))
    breached = [one for one in bare.values() if one.evidence]
    assert len(breached) >= REAL
    assert {one.category for one in breached} == set(CATEGORIES), "attempts of every kind succeed"


def test_each_attempt_succeeds_unless_it_says_what_else_holds_it(bare: dict[str, Outcome]) -> None:
    harmless = {one.name: one.output for one in bare.values() if not one.evidence and not one.held_bare}
    assert not harmless, "these attempts prove nothing"


def test_each_attempt_is_made(bare: dict[str, Outcome]) -> None:
    assert not {one.name: one.output for one in bare.values() if not one.attempted}
