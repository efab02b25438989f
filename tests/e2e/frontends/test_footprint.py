"""What a process with a bot on each platform takes: memory while it idles, and time until it answers."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

import pytest

from agent_testing import LiveProcess
from agent_testing.discord import User as DiscordUser
from agent_testing.telegram import User
from tests.redteam.frontends.world import DEN, HOME, PATIENCE, PROGRAM, ROOT, World, living

MAX_MIB = 80
MAX_SECONDS = 3.0
IDLE_SECONDS = 10.0
STARTS = 3

pytestmark = [pytest.mark.slow, pytest.mark.machine]


def mib(pid: int) -> float:
    """Return the resident memory of a process."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Rss:")) / 1024


def most_over(seconds: float, measure: Callable[[], float]) -> float:
    """Return the most of what is measured in this time."""
    measured, deadline = [measure()], time.monotonic() + seconds
    while time.monotonic() < deadline:
        time.sleep(0.5)
        measured.append(measure())
    return max(measured)


def on_telegram(world: World, person: User, begin: float) -> float:
    """Return the time from `begin` until the bot has answered what waited for it."""
    world.reply(person.chat, "well said")
    return time.monotonic() - begin


def on_discord(world: World, member: DiscordUser, begin: float) -> float:
    """The same for what is written as soon as it can reach the bot."""
    world.process.wait_for_output(f"bot connected.*{DEN}", PATIENCE)
    world.discord.wait_for_session(seconds=PATIENCE)
    member.write(member.dm(), "hello")
    world.discord_reply(member.dm(), "well said")
    return time.monotonic() - begin


def test_a_process_with_both_platforms_is_small_and_soon_there(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    seconds: dict[str, list[float]] = {"Telegram": [], "Discord": []}
    with living(tmp_path, [HOME, DEN]) as world, ThreadPoolExecutor() as threads:
        idle = 0.0
        for left in reversed(range(STARTS)):
            person, member = world.person(), world.member()
            world.process.terminate()
            person.write(person.chat, "hello")  # it waits for the next process
            begin = time.monotonic()
            with LiveProcess(PROGRAM, world.environment, cwd=ROOT) as world.process:
                telegram = threads.submit(on_telegram, world, person, begin)
                seconds["Discord"].append(on_discord(world, member, begin))
                seconds["Telegram"].append(telegram.result())
                if not left:
                    idle = most_over(IDLE_SECONDS, lambda: mib(world.process.pid))
    record_property("MiB", idle)
    record_property("seconds", seconds)
    print(f"{idle:.1f} MiB idle; seconds from start to first reply: {seconds}")
    assert idle <= MAX_MIB
    assert all(median(each) <= MAX_SECONDS for each in seconds.values())
