"""Node programs beside a live runtime, and what Node's own test runner reports."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from .live import TOKEN, Runtime

CLIENT = Path(__file__).resolve().parents[1] / "client"
MOST_SECONDS = 50.0
_TITLE = re.compile(r'^test\("([^"]+)"', re.MULTILINE)
_RESULT = re.compile(r"^\s*(not )?ok \d+ - (.+)$")


def titles(file: Path) -> list[str]:
    """The tests of a file, by their names."""
    return _TITLE.findall(file.read_text("utf-8"))


def run_node(
    runtime: Runtime, *argv: str | Path, cwd: Path = CLIENT, given: str = ""
) -> subprocess.CompletedProcess[str]:
    """A Node program that knows where the runtime and its model are."""
    assert (CLIENT / "node_modules" / "ai").is_dir(), "the AI SDK is not installed; run: make setup"
    env = {
        **os.environ,
        "AGENT_URL": runtime.url,
        "AGENT_TOKEN": TOKEN,
        "PROVIDER_URL": runtime.provider.url.removesuffix("/v1"),
    }
    return subprocess.run(
        ["node", *argv],
        cwd=cwd, env=env, input=given, capture_output=True, text=True, check=False, timeout=MOST_SECONDS,
    )  # fmt: skip


def run_tests(runtime: Runtime, file: Path) -> dict[str, str]:
    """Runs a file of tests: name -> what went wrong, nothing when it passed."""
    try:
        done = run_node(runtime, "--test", "--test-reporter=tap", file)
    except subprocess.TimeoutExpired:
        return dict.fromkeys(titles(file), f"all of {file.name} together took longer than {MOST_SECONDS:g} s")
    results = _results(done.stdout)
    missing = set(titles(file)) - results.keys()
    return {**results, **dict.fromkeys(missing, f"it did not run:\n{done.stdout}\n{done.stderr}")}


def _results(report: str) -> dict[str, str]:
    """Reads TAP: a line for each result, and lines about it behind that until a line of three dots."""
    results: dict[str, str] = {}
    about: list[str] | None = None
    name = ""
    for line in report.splitlines():
        if found := _RESULT.match(line):
            name, about = found[2], []
            results[name] = "failed" if found[1] else ""
        elif about is not None and line.strip() == "...":
            if results[name]:
                results[name] = "\n".join(about)
            about = None
        elif about is not None:
            about.append(line)
    return results
