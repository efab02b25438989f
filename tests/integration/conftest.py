"""Fixtures that several folders of these tests share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from agent_runtime.sandbox import Confinement, choose_confinement
from agent_runtime.sandbox.backends.bubblewrap import Bubblewrap

Hold = Callable[[Path], Awaitable[Confinement]]


@pytest.fixture(scope="session")
def hold(tmp_path_factory: pytest.TempPathFactory) -> Hold:
    """`await hold(data_dir)` is what the runtime chooses here by itself, over this data folder.

    Bubblewrap is tried once for all tests, and not once more before each: a program that attacks it has to be started
    for that, and what it finds is the machine's and not the folder's.
    """
    best = asyncio.run(choose_confinement("auto", tmp_path_factory.mktemp("hold")))

    async def choose(data_dir: Path) -> Confinement:
        if best.name == "bubblewrap":
            return Confinement(Bubblewrap.for_this_host(data_dir))
        return await choose_confinement("auto", data_dir)

    return choose
