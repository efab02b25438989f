"""Plugins that go wrong in every way, and plugins that come and go, in a live runtime. `make soak` does more of both.

How fast the server answers meanwhile is for `python -m tests.soak.skills` to say: here others use the machine too.
"""

from __future__ import annotations

import random

import pytest

from tests.soak.skills.reloads import reloads
from tests.soak.skills.storm import storm
from tests.soak.skills.ways import NAMED, WAYS

REPEATS = 1
CHANGES = 100


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_each_call_of_a_plugin_that_goes_wrong_is_all_that_goes_wrong() -> None:
    found = storm(REPEATS)
    assert found.faults == [], found.text()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_nothing_piles_up_when_plugins_come_and_go() -> None:
    found = reloads(CHANGES, random.randrange(1_000_000))
    assert found.faults == [], found.text()


def test_each_way_to_go_wrong_has_a_name_of_its_own() -> None:
    names = [way.name for way in WAYS]
    assert len(set(names)) == len(names)
    assert set(NAMED) <= set(names)
