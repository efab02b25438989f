"""Kill -9 of a hub, of runtimes and of agents while they talk."""

from __future__ import annotations

from pathlib import Path

import pytest

from .hub_kills.storm import storm

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3000)]


async def test_a_hub_loses_nothing_and_repeats_nothing_over_two_hundred_kills(tmp_path: Path) -> None:
    await storm(tmp_path, None, hosts=[70], runtimes=70, speakers=60)
