"""The bridge as a process: options, and counts at the end."""

from __future__ import annotations

import json
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from agent_testing import LiveProcess

BRIDGE = [sys.executable, "-m", "agent_testing", "bridge"]


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    assert select.select([process.stdout], [], [], 60)[0], "it said nothing"
    return process.stdout.readline().strip()


def test_it_carries_bytes_until_it_is_stopped(tmp_path: Path) -> None:
    path = tmp_path / "guest.sock"
    with socket.create_server(("127.0.0.1", 0)) as host:
        target = f"tcp://127.0.0.1:{host.getsockname()[1]}"
        argv = [*BRIDGE, "--listen", f"unix:{path}", "--target", target]
        with (
            subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process,
            socket.socket(socket.AF_UNIX) as guest,
        ):
            try:
                assert line(process) == f"unix:{path}"
                guest.settimeout(60)
                guest.connect(str(path))
                outer, _ = host.accept()
                with outer:
                    outer.settimeout(60)
                    guest.sendall(b"ready\n")
                    assert outer.recv(100) == b"ready\n"
                    process.send_signal(signal.SIGTERM)
                    counts = json.loads(line(process))["counts"]
                    assert (counts["accepted"], counts["to_host"]) == (1, 6)
                assert process.wait(10) == 0
                assert not path.exists()
            finally:
                process.kill()


def test_it_runs_without_a_hand_on_it_and_plays_its_seed() -> None:
    argv = [*BRIDGE, "--listen", "tcp://127.0.0.1:0", "--target", "tcp://127.0.0.1:9"]
    with LiveProcess([*argv, "--seed", "4", "--breaks-per-minute", "60000"]) as process:
        process.wait_for_output(r"^tcp://127\.0\.0\.1:\d+$")
        assert process.terminate() == 0
        assert json.loads(process.output().splitlines()[-1])["counts"]["open"] == 0


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (["--target", "nowhere"], "target 'nowhere' must be like"),
        (["--breaks-per-minute", "-1"], "breaks_per_minute is -1.0"),
        (["--listen", "unix:/nonexistent/folder/x.sock"], "there is no folder"),
    ],
)
def test_wrong_options_are_told(wrong: list[str], why: str) -> None:
    argv = [*BRIDGE, "--listen", "tcp://127.0.0.1:0", "--target", "tcp://127.0.0.1:9", *wrong]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert why in done.stderr
