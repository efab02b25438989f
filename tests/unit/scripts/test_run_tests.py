"""Failed tests are run again: what passes then is luck, what fails each time is a fault."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SUITE = """
from pathlib import Path
import pytest

def runs(name):
    count = Path(__file__).with_name(name)
    count.write_text(count.read_text() + "x" if count.exists() else "x")
    return len(count.read_text())

def test_passes():
    assert runs("passes") == 1

def test_unlucky():
    assert runs("unlucky") % 2 == 0, "luck"

def test_very_unlucky():
    assert runs("very") % 3 == 0, "bad luck"

def test_broken():
    runs("broken")
    assert {broken}, "a fault"
"""


def run(folder: Path, *arguments: str, broken: bool = False) -> tuple[int, list[str]]:
    """Run a suite; return its exit code and the lines it printed."""
    folder.joinpath("test_suite.py").write_text(SUITE.format(broken=not broken))
    command = [sys.executable, "-m", "scripts.run_tests", "-p", "no:randomly", "-ra", *arguments]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=120)
    return done.returncode, done.stdout.strip().splitlines()


def test_what_passes_alone_is_flaky_and_the_run_is_green(tmp_path: Path) -> None:
    code, lines = run(tmp_path)
    assert code == 0
    flaky = [line.rpartition("::")[2] for line in lines if line.startswith("FLAKY ")]
    assert flaky == ["test_unlucky", "test_very_unlucky"]
    assert (tmp_path / "passes").read_text() == "x", "what passed is not run again"


@pytest.mark.slow
def test_what_fails_each_time_is_red_and_named_last_with_its_reason(tmp_path: Path) -> None:
    code, lines = run(tmp_path, broken=True)
    assert code == 1
    assert lines[-1].startswith("FAILED ")
    assert lines[-1].endswith("::test_broken - AssertionError: a fault")
    assert (tmp_path / "broken").read_text() == "xxx"


@pytest.mark.parametrize("argument", ["-x", "--maxfail=1"])
def test_a_run_that_stopped_early_is_no_proof(tmp_path: Path, argument: str) -> None:
    code, lines = run(tmp_path, argument)
    assert code == 1
    assert not [line for line in lines if line.startswith("FLAKY ")]


@pytest.mark.slow
def test_what_cannot_be_run_is_red(tmp_path: Path) -> None:
    assert run(tmp_path, "--no-such-option")[0] == 4
    assert run(tmp_path, "-k", "no_such_test")[0] == 5
