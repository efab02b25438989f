"""A crowd and twenty-five deaths: every promise is kept. `make soak` does the same for longer."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.soak.driver import soak
from tests.soak.report import text


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_every_promise_is_kept_through_twenty_five_deaths(tmp_path: Path) -> None:
    found = soak(random.randrange(1_000_000), 25, tmp_path)
    assert found.faults == [], text(found)
