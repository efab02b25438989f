"""`agent-host run`: one task with the driver that is always there, what is refused, and that nothing is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_testing import Say, ScriptedProvider

from .live import PATIENCE

pytestmark = pytest.mark.slow

RUN = [sys.executable, "-m", "agent_host", "run"]


def environment(folder: Path) -> dict[str, str]:
    """The checkout's code wherever it is run, and its temporary files in the test's folder."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("MESH_")}
    return {**inherited, "PYTHONPATH": str(Path(__file__).parents[3]), "TMPDIR": str(folder)}


def run(folder: Path, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    given = [*RUN, "Hello there", *arguments]
    return subprocess.run(
        given,
        check=False,
        cwd=folder,
        env={**environment(folder), **settings},
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE,
    )


def eventually(what: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def test_a_task_from_boot_to_power_off(tmp_path: Path) -> None:
    """The folder may be named as one names folders: from where one stands."""
    for _ in range(2):
        ended = run(tmp_path, "--driver", "process", "--data-dir", "kept")
        assert (ended.returncode, "Hello there" in ended.stdout) == (0, True), ended.stderr
    assert (tmp_path / "kept" / "mesh.db").exists()


def test_an_answer_drives_no_terminal(tmp_path: Path) -> None:
    with ScriptedProvider([Say("Copied \x1b]52;c;eA==\x07 and \u202e")]) as provider:
        own = {"OPENAI_BASE_URL": provider.url, "OPENAI_MODEL": "m", "OPENAI_API_KEY": "sk-x"}
        ended = run(tmp_path, "--driver", "process", **own)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "Copied \\x1b]52;c;eA==\\x07 and \\u202e\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--driver", "process", "--timeout", "nan"], "--timeout: must be more than 0"),
        (["--driver", "process", "--timeout", "-1"], "--timeout: must be more than 0"),
        (["--driver", "process", "--data-dir", "/proc/none/here"], "--data-dir: cannot write to /proc/none/here"),
        ([], "--driver qemu boots an image: name it with --image or MESH_VM_IMAGE"),
        (["--image", "/nowhere"], "MESH_VM_IMAGE: /nowhere has no vmlinuz"),
    ],
)
def test_what_cannot_be_is_said_in_words(tmp_path: Path, arguments: list[str], said: str) -> None:
    ended = run(tmp_path, *arguments)
    assert ended.returncode == 1
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_its_host_ends_with_it(tmp_path: Path, number: signal.Signals) -> None:
    """By SIGKILL too, after which only the folder is left."""
    given = [*RUN, "Hello there", "--driver", "external"]
    with subprocess.Popen(
        given, env=environment(tmp_path), stderr=subprocess.PIPE, text=True, process_group=0
    ) as process:
        assert process.stderr is not None
        assert "it runs" in process.stderr.readline()
        (child,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.send_signal(number)
        assert process.wait(PATIENCE) != 0
    eventually(lambda: not Path(f"/proc/{child}").exists())
    assert bool(list(tmp_path.glob("agent-*"))) == (number == signal.SIGKILL)


def test_a_folder_is_for_one_at_a_time(tmp_path: Path) -> None:
    given = [*RUN, "Hello there", "--driver", "external", "--data-dir", str(tmp_path / "kept")]
    with subprocess.Popen(given, env=environment(tmp_path), stderr=subprocess.PIPE, text=True) as first:
        assert first.stderr is not None
        assert "it runs" in first.stderr.readline()
        second = run(tmp_path, "--driver", "process", "--data-dir", "kept")
        first.terminate()
    assert (second.returncode, "another agent-host uses" in second.stderr) == (1, True), second.stderr
    assert "agent-host: agent-host: " not in second.stderr
