"""Every attempt against a confined runtime: none may succeed.

REDTEAM_BACKEND names the backend that must be in force, better ones being out of the way; REDTEAM_SERVER=user runs the
server as somebody who is not root.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from .arena import outcomes
from .case import CATEGORIES, Case
from .cases import CASES
from .conftest import chosen
from .ground import held
from .page import PAGE
from .play import Outcome

pytestmark = pytest.mark.timeout(480)

BACKEND = os.environ.get("REDTEAM_BACKEND", "")
SERVER = os.environ.get("REDTEAM_SERVER", "root")
CORE = (
    "environment-of-the-server",
    "plant-in-etc",
    "loopback-of-the-host",
    "vsock",
    "daemon",
    "order-of-dying",
    "mount",
)
"""A quick case of each kind: `make test` plays these, `make test-all` plays every case."""


@pytest.fixture(scope="module")
def confined(request: pytest.FixtureRequest) -> dict[str, Outcome]:
    assert SERVER in ("root", "user")
    ground = replace(held(BACKEND, "user" if SERVER == "user" else "root"), names=chosen(request, "test_it_is_held"))
    return {one.name: one for one in outcomes(ground)}


@pytest.mark.parametrize(
    "case",
    [
        case if case.name in CORE else pytest.param(case, marks=[pytest.mark.slow, pytest.mark.machine])
        for case in CASES
    ],
    ids=lambda case: case.name,
)
def test_it_is_held(case: Case, confined: dict[str, Outcome]) -> None:
    outcome = confined[case.name]
    assert outcome.attempted, f"the attempt was not made:\n{outcome.output}"
    assert not outcome.evidence, f"{case.tries}: {outcome.evidence}\n{outcome.output}"


def test_the_page_lists_every_attempt() -> None:
    page = (Path(__file__).parents[2] / PAGE).read_text()
    assert not [case.name for case in CASES if f"| `{case.name}` | {case.tries} | held |" not in page]


def test_there_are_enough_attempts_of_every_kind() -> None:
    assert len(CASES) >= 75
    assert len({case.name for case in CASES}) == len(CASES)
    kinds = [case.category for case in CASES]
    assert min(kinds.count(kind) for kind in set(kinds)) >= 10, "seven kinds of attempts, none of them forgotten"
    assert {case.category for case in CASES if case.name in CORE} == set(CATEGORIES)
