"""Signals to what a child has started."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from dataclasses import dataclass
from typing import Any, cast

from agent_host.fleet.process_group import signal_group
from agent_testing import LiveProcess

SLEEPS = [sys.executable, "-c", "import time; print('begun', flush=True); time.sleep(600)"]


@dataclass
class _Ended:
    """A child that has ended, and whose number somebody else has now."""

    pid: int
    returncode: int = 0


async def test_a_number_that_belongs_to_somebody_else_now_gets_no_signal() -> None:
    with LiveProcess(SLEEPS) as stranger:
        stranger.wait_for_output("begun", 60)
        signal_group(cast("Any", _Ended(stranger.pid)), signal.SIGKILL)
        await asyncio.sleep(0.05)
        assert stranger.returncode is None


async def test_what_an_ended_child_has_left_is_killed() -> None:
    leaves = "sleep 600 & echo $!"
    child = await asyncio.create_subprocess_exec(
        "sh", "-c", leaves, stdout=asyncio.subprocess.PIPE, start_new_session=True
    )
    assert child.stdout is not None
    left = int(await child.stdout.readline())
    os.kill(left, 0)
    await _reaped(child)
    signal_group(child, signal.SIGKILL)
    async with asyncio.timeout(60):  # the pipe ends with the last that holds it
        assert await child.stdout.read() == b""


async def _reaped(child: asyncio.subprocess.Process) -> None:
    async with asyncio.timeout(60):
        while child.returncode is None:
            await asyncio.sleep(0.01)
