"""What agents, plugins and files say drives no terminal: the commands print escapes in the place of what would."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent_host.cli.print_errors import print_errors
from agent_host.errors import StartError
from tests.measured import MEASURED

CLIPBOARD = "\x1b]52;c;eA==\x07"
SHOWN = r"\x1b]52;c;eA==\x07"
PLUGIN = """
@skill(name="speaks", description="d")
def speaks(word: str):
    print(word)
    if word.startswith("fail"):
        raise ValueError(word)
    return word
"""


def run(data: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "agent_runtime", *arguments]
    env = {**os.environ, **MEASURED, "AGENT_DATA_DIR": str(data)}
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=100)


@pytest.mark.parametrize("text", [CLIPBOARD, "\x9b31m", "\u202e", "a\r\x1b[2Kb"])
def test_a_fault_of_the_host_s_commands(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    @print_errors
    def command() -> None:
        raise StartError(f"the work is resulted: {text}\n{text}")

    with pytest.raises(BaseException, match="1"):
        command()
    printed = capsys.readouterr().err
    assert all(char.isprintable() or char == "\n" for char in printed), repr(printed)
    assert all(line.startswith("agent-host: ") for line in printed.splitlines())


def test_a_fault_of_the_runtime_s_commands(tmp_path: Path) -> None:
    done = run(tmp_path / "data", "import", str(tmp_path / CLIPBOARD))
    assert (done.returncode, "\x1b" in done.stderr, SHOWN in done.stderr) == (1, False, True)


@pytest.mark.slow
@pytest.mark.parametrize("word", ["", "fail "])
def test_what_a_plugin_says(tmp_path: Path, word: str) -> None:
    plugin = tmp_path / "speaks.py"
    plugin.write_text(PLUGIN)
    done = run(tmp_path / "data", "skill", "test", str(plugin), "--arguments", json.dumps({"word": word + CLIPBOARD}))
    assert done.returncode == bool(word)
    printed = done.stdout + done.stderr
    assert "\x1b" not in printed
    assert SHOWN in printed
