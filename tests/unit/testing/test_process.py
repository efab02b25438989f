"""Live child processes, and the scripted provider as one."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from pathlib import Path

import httpx
import psutil
import pytest

from agent_testing import LiveProcess, Say, step_to_json

PROVIDER = [sys.executable, "-m", "agent_testing"]
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print("child", child.pid, flush=True)
time.sleep(60)
"""


def test_the_provider_runs_as_a_process_that_http_controls(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps([step_to_json(Say("from the file"))]))
    with LiveProcess([*PROVIDER, "--script", script, "--model", "m1", "--model", "m2"]) as process:
        url = process.wait_for_output(r"^http://\S+$")[0]
        with httpx.Client(base_url=url.removesuffix("/v1")) as client:
            body = {"messages": [{"role": "user", "content": "hi"}]}

            def answer() -> str:
                return client.post("/v1/chat/completions", json=body).json()["choices"][0]["message"]["content"]

            assert answer() == "from the file"
            assert [model["id"] for model in client.get("/v1/models").json()["data"]] == ["m1", "m2"]
            assert client.post("/_script", json={"steps": [step_to_json(Say("new"))]}).json() == {"left": 1}
            assert answer() == "new"
            assert client.post("/_script", json={"steps": [{"type": "unknown"}]}).status_code == 400
            recorded = client.get("/_requests").json()
            assert [request["path"] for request in recorded] == [
                *("/v1/chat/completions", "/v1/models", "/v1/chat/completions")
            ]
            assert recorded[0]["body"] == body
            assert client.get("/_stats").json()["requests"] == 3
            assert client.delete("/_requests").json() == {}
            assert client.get("/_requests").json() == []
            assert client.post("/_release").status_code == 200
            assert client.get("/_nothing").status_code == 404
            client.post("/v1/embeddings", content=b"no json")
            assert client.get("/_requests").json()[0]["body"] == "no json"
        assert process.terminate() == 0


def test_ready_means_that_the_url_answers() -> None:
    with LiveProcess(PROVIDER) as first:
        url = first.wait_for_output(r"http://\S+")[0]
        with LiveProcess([sys.executable, "-c", "import time; time.sleep(60)"], ready_url=f"{url}/models") as second:
            assert second.returncode is None
        assert second.returncode == -signal.SIGTERM


def test_a_child_that_ends_or_never_gets_ready_is_reported_with_its_output() -> None:
    dead = [sys.executable, "-c", "print('no such flag'); raise SystemExit(3)"]
    with pytest.raises(RuntimeError, match=r"ended with 3(.|\n)*no such flag"), LiveProcess(dead, ready_url=_NOBODY):
        pass
    mute = [sys.executable, "-c", "import time; time.sleep(60)"]
    with pytest.raises(TimeoutError, match="did not give"), LiveProcess(mute, ready_url=_NOBODY, timeout=0.2):
        pass


def test_output_is_awaited_with_a_deadline() -> None:
    with LiveProcess([sys.executable, "-c", "import os; print(os.environ['WORD'])"], {"WORD": "bird"}) as process:
        assert process.wait_for_output("b(.)rd")[1] == "i"
        assert process.wait(10) == 0
        with pytest.raises(RuntimeError, match="ended with 0"):
            process.wait_for_output("fish", timeout=60)


def test_waiting_for_the_end_has_a_deadline() -> None:
    with (
        LiveProcess([sys.executable, "-c", "import time; time.sleep(60)"]) as process,
        pytest.raises(TimeoutError, match="still runs"),
    ):
        process.wait(0.01)


def test_a_stubborn_process_is_killed() -> None:
    with LiveProcess([sys.executable, "-c", STUBBORN]) as process:
        process.wait_for_output("up")
        assert process.terminate(timeout=0.1) == -signal.SIGKILL


def test_kill9_spares_the_children_and_the_end_does_not() -> None:
    with LiveProcess([sys.executable, "-c", PARENT]) as process:
        child = int(process.wait_for_output(r"child (\d+)")[1])
        assert process.kill9() == -signal.SIGKILL
        os.kill(child, 0)
    deadline = time.monotonic() + 10
    with contextlib.suppress(psutil.NoSuchProcess):
        while psutil.Process(child).status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < deadline
            time.sleep(0.01)


_NOBODY = "http://127.0.0.1:9/"
