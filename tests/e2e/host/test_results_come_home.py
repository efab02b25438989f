"""Results of tasks that were posted to guests, while all breaks and both ends die."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.soak.results import run


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_each_result_is_recorded_once_and_each_callback_arrives() -> None:
    seed = random.randrange(1_000_000)
    with TemporaryDirectory(prefix="res-") as folder:
        assert asyncio.run(run(seed, Path(folder))) == [], f"seed {seed}"
