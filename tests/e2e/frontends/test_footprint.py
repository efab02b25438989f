"""What a process with a bot on each platform takes: memory while it idles, and time until it answers."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_testing import LiveProcess
from tests.redteam.frontends.world import DEN, HOME, PROGRAM, ROOT, living

MAX_MIB = 80
MAX_SECONDS = 3.0
IDLE_SECONDS = 10.0

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


def test_a_process_with_both_platforms_is_small_and_soon_there(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    with living(tmp_path, [HOME, DEN]) as world:
        people, members = [world.person() for _ in range(3)], [world.member() for _ in range(3)]
        seconds: list[float] = []
        idle = 0.0
        for person, member in zip(people, members, strict=True):
            world.process.terminate()
            person.write(person.chat, "hello")  # it waits for the next process
            begin = time.monotonic()
            with LiveProcess(PROGRAM, world.environment, cwd=ROOT) as world.process:
                world.reply(person.chat, "well said")
                seconds.append(time.monotonic() - begin)
                world.process.wait_for_output(f"bot connected.*{DEN}", 20)
                world.discord.wait_for_session(seconds=20)
                member.write(member.dm(), "hello")
                world.discord_reply(member.dm(), "well said")
                if len(seconds) == len(people):
                    idle = most_over(IDLE_SECONDS, lambda: mib(world.process.pid))
                    record_property("MiB", idle)
        record_property("seconds", seconds)
        print(f"{idle:.1f} MiB idle; {', '.join(f'{one:.2f}' for one in seconds)} s from start to first reply")
        assert idle <= MAX_MIB
        assert min(seconds) <= MAX_SECONDS
