"""Tests of this folder run on a loop whose time they move."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from .moved_time import HandLoop
from .pair import Pair


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"by-hand": HandLoop}


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    """In a folder of its own: a socket's path must be short."""
    with TemporaryDirectory(prefix="pair") as folder:
        async with Pair(Path(folder)) as pair:
            yield pair
