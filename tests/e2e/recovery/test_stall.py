"""A server whose event loop stands still ends, and the next one goes on with its work. A pause of it is no end."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from agent_testing import Hang, Say, ScriptedProvider

from ..live import PATIENCE, SERVE, Runtime

LIMIT = 3
"""Seconds in place of the minute that is the default."""
BLOCKABLE = """
import signal, sys, time

def stand_still(*_):
    time.sleep(3600)

signal.signal(signal.SIGUSR1, stand_still)
from agent_runtime.cli.main import main
sys.exit(main(["serve"]))
"""
"""A server whose loop stands still for good after a signal: nothing that a caller may send does that."""


@pytest.mark.slow
def test_it_ends_and_the_next_one_goes_on_with_its_work(provider: ScriptedProvider, tmp_path: Path) -> None:
    agent = Runtime(provider, tmp_path / "data", AGENT_STALL_TIMEOUT=LIMIT)
    agent.command = [sys.executable, "-c", BLOCKABLE]
    with agent:
        os.kill(agent.process.pid, signal.SIGSTOP)
        time.sleep(2 * LIMIT)
        os.kill(agent.process.pid, signal.SIGCONT)
        agent.still_works()

        provider.clear()
        provider.script.replace([Hang(after=1, reply=Say("never said to its end"))])
        running = agent.assign()
        provider.wait_for(1)
        os.kill(agent.process.pid, signal.SIGUSR1)
        assert agent.process.wait(PATIENCE) == 70
        said = agent.process.output()
        assert f"agent-runtime: the event loop has stood still for {LIMIT} s, so this process ends" in said
        assert "in stand_still" in said, "the stack of the thread that stands still"

        provider.script.replace(lambda _: Say("done after all"))
        agent.command = SERVE
        agent.start()
        assert agent.result(running)["result"] == {"text": "done after all"}
