"""Kill -9 of two hubs on one database, each in turn, of runtimes and of agents while they talk."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.host.postgresql import new_database, postgresql

from .hub_kills.storm import storm

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3000)]


async def test_they_lose_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    with postgresql() as server:
        await storm(tmp_path, new_database(server, "kills"), hosts=[50, 50], runtimes=50, speakers=50)
