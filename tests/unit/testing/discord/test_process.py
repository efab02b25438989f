"""A bot that is killed: what the double keeps outlives it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from agent_testing import LiveProcess
from agent_testing.discord import FakeDiscord

BOT = Path(__file__).with_name("echo_bot.py")


def start(fake: FakeDiscord) -> LiveProcess:
    argv = [sys.executable, "-W", "ignore", str(BOT), fake.url, fake.gateway_url, fake.bot.token]
    return LiveProcess(argv)


def test_without_the_extra_the_package_is_imported_and_the_double_names_it() -> None:
    without = "import sys; sys.modules['aiohttp'] = None"
    program = f"{without}; from agent_testing import FakeDiscord; FakeDiscord().__enter__()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1].endswith("FakeDiscord needs the extra `bots`")


@pytest.mark.slow
def test_what_is_kept_outlives_a_bot_that_is_killed(fake: FakeDiscord) -> None:
    ada = fake.user("ada")
    with start(fake) as process:
        fake.wait_for_session(seconds=30)
        ada.write(ada.dm(), "one")
        fake.wait_for(lambda: ada.dm().messages[1:], 30)
        process.kill9()
        fake.wait_for(lambda: fake.connected == 0)
    ada.write(ada.dm(), "missed")  # a new process has a new session, which does not get it
    with start(fake):
        fake.wait_for_session(seconds=30)
        ada.write(ada.dm(), "two")
        fake.wait_for(lambda: ada.dm().messages[4:], 30)
    assert [each.content for each in ada.dm().messages] == ["one", "one!", "missed", "two", "two!"]
    assert [each.method for each in fake.journal if each.path.endswith("/messages")] == ["POST", "POST"]
