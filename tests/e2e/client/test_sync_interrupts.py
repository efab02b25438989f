"""Ctrl-C in a program that uses the client without `await` ends its call, and its connection, and nothing else."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from agent_testing import Hang, LiveProcess, Say

from ..live import PATIENCE, TOKEN, Runtime, fresh

PROGRAM = """
import sys
from agent_client import TextDelta
from agent_client.sync import SyncAgent

url, token, session, how = sys.argv[1:]
with SyncAgent(url, token) as agent:
    try:
        if how == "stream":
            for event in agent.chat("count", session=session):
                print(event, flush=True)
        elif how == "events":
            print("TextDelta", flush=True)
            for event in agent.events():
                print(event, flush=True)
        else:
            print("TextDelta", flush=True)
            agent.ask("count", session=session)
    finally:
        print("works still:", agent.status().agent_id, flush=True)
"""


@pytest.mark.parametrize("how", ["stream", "events", "ask"])
def test_an_interruption_ends_the_call_and_the_client_still_works(agent: Runtime, tmp_path: Path, how: str) -> None:
    agent.provider.script.replace([Hang(after=1, reply=Say("one two"))])
    session, program = fresh("s"), tmp_path / "program.py"
    program.write_text(PROGRAM)
    with LiveProcess([sys.executable, program, agent.url, TOKEN, session, how]) as process:
        process.wait_for_output("TextDelta", PATIENCE)
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(PATIENCE) == -signal.SIGINT
        said = process.output().splitlines()
    assert said[-1] == "KeyboardInterrupt"
    assert "works still: agent" in said
    assert not any("Error" in line for line in said), said
