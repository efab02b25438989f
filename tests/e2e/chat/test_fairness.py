"""What a command does to the machine does not keep the server from answering."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from agent_testing import Call, Say
from tests.pulse import Pulse

from ..live import TOKEN, Runtime, eventually, fresh

PATIENCE = 60.0

BOMBS = {
    "forks": "printf 'import os\\nwhile True:\\n try: os.fork()\\n except OSError: pass\\n' > bomb.py; python3 bomb.py",
    "loops": "for i in $(seq 230); do (while :; do :; done) & done; wait",
    "sessions": "while :; do setsid bash -c 'while :; do :; done' & done 2>/dev/null",
    "memory": "python3 -c 'bytearray(5 * 2**30)'; for i in 1 2 3; do python3 -c 'b\"x\" * (1800 * 2**20)' & done; wait",
}


@pytest.mark.slow
@pytest.mark.machine
@pytest.mark.parametrize("bomb", BOMBS)
def test_the_status_answers_at_once_while_a_command_runs_wild(agent: Runtime, bomb: str) -> None:
    command = f"touch {bomb}; until [ -e go-{bomb} ]; do sleep 0.01; done; {BOMBS[bomb]}"
    agent.provider.script.replace([Call("bash", {"command": command, "timeout_ms": 4000}), Say("over")])
    with ThreadPoolExecutor(1) as somebody:
        asking = somebody.submit(agent.chat, "go", session_id=fresh("s"))
        workspace = agent.data_dir / "workspace"
        eventually((workspace / bomb).exists, PATIENCE)
        with Pulse(agent.url, TOKEN) as pulse:
            (workspace / f"go-{bomb}").touch()
            reply = asking.result(PATIENCE)
    assert reply.json()["response"] == "over"
    assert pulse.p95 < 100, f"{len(pulse.milliseconds)} answers, {max(pulse.milliseconds):.0f} ms at the worst"
    agent.still_works()
