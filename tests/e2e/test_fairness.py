"""What a command does to the machine does not keep the server from answering."""

from __future__ import annotations

import threading
import time

import pytest

from agent_runtime.testing import Call, Say

from .live import Runtime, fresh

PATIENCE = 30.0

BOMBS = {
    "forks": "printf 'import os\\nwhile True:\\n try: os.fork()\\n except OSError: pass\\n' > bomb.py; python3 bomb.py",
    "loops": "for i in $(seq 230); do (while :; do :; done) & done; wait",
    "sessions": "while :; do setsid bash -c 'while :; do :; done' & done 2>/dev/null",
    "memory": "python3 -c 'bytearray(5 * 2**30)'; for i in 1 2 3; do python3 -c 'b\"x\" * (1800 * 2**20)' & done; wait",
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_the_status_answers_at_once_while_a_command_runs_wild(agent: Runtime, bomb: str) -> None:
    command = f"touch {bomb}; {BOMBS[bomb]}"
    agent.provider.script.replace([Call("bash", {"command": command, "timeout_ms": 3000}), Say("over")])
    replies: list[str] = []
    asking = threading.Thread(target=lambda: replies.append(agent.chat("go", session_id=fresh("s")).json()["response"]))
    asking.start()
    started, taken = agent.data_dir / "workspace" / bomb, list[float]()
    deadline = time.monotonic() + PATIENCE
    while not started.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    while asking.is_alive():
        began = time.monotonic()
        assert agent.status()["agent_id"]
        taken.append(time.monotonic() - began)
        time.sleep(0.005)
    asking.join()
    assert replies == ["over"]
    assert sorted(taken)[int(len(taken) * 0.95)] < 0.1, f"{len(taken)} answers, {max(taken):.3f} s at the worst"
    agent.still_works()
