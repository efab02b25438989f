"""Work over mediation while all breaks and both ends die; `python -m tests.soak.mediation` does it for longer."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.soak.mediation.driver import storm
from tests.soak.mediation.flapping import flapping
from tests.soak.mediation.report import text


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_each_request_ends_once_whatever_breaks_and_whoever_dies() -> None:
    with TemporaryDirectory(prefix="med-") as folder:
        found = asyncio.run(storm(random.randrange(1_000_000), 200, 6, Path(folder), rounds=0))
    assert found.faults == [], text(found)


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_each_request_ends_once_though_the_connection_flaps() -> None:
    with TemporaryDirectory(prefix="med-") as folder:
        found = asyncio.run(flapping(random.randrange(1_000_000), 10, Path(folder)))
    assert found.faults == [], text(found)
