"""A fake Telegram, and a bot that calls it by plain HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agent_testing import FakeTelegram, TelegramLimits
from tests.unit.testing.telegram.api import Api


@pytest.fixture
def telegram() -> Iterator[FakeTelegram]:
    with FakeTelegram(limits=TelegramLimits.none()) as telegram:
        yield telegram


@pytest.fixture
def api(telegram: FakeTelegram) -> Iterator[Api]:
    with Api(telegram) as api:
        yield api
