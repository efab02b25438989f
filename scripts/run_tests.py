"""Run pytest, and each failed test again when all others are done: luck is told from faults.

    python -m scripts.run_tests -n 3 -m "not slow"

The arguments are pytest's. A test that fails and then passes alone is printed as `FLAKY path::name`, and the run is
green. One that fails three times is a fault: the run is red, and its last lines are the failures with their reasons.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

RERUNS = 2
MAX_RERUN = 30
"""More failures than these are no luck, and running them one after the other would take long."""
STOP_EARLY = ("-x", "--exitfirst", "--maxfail", "--stepwise", "--sw", "--pdb")
TESTS_FAILED = 1
"""Exit code of pytest; those above it say that not all tests could be run."""


def run(arguments: Sequence[str], folder: Path) -> int:
    """Run the tests and return the exit code of pytest, 0 where all that failed passed when they were run again."""
    cache = folder / "0"
    command = _command(cache, arguments)
    code = subprocess.run(command, check=False).returncode
    failed = _failed(cache)
    if code != TESTS_FAILED or not 0 < len(failed) <= MAX_RERUN or any(one.startswith(STOP_EARLY) for one in arguments):
        return code
    return _run_again(failed, folder)


def _run_again(failed: list[str], folder: Path) -> int:
    code = TESTS_FAILED
    reasons = ""
    for attempt in range(1, RERUNS + 1):
        print(f"\nRunning {len(failed)} failed tests again, alone", flush=True)
        cache = folder / str(attempt)
        done = subprocess.run(_command(cache, ["-n0", *failed]), check=False, stdout=subprocess.PIPE, text=True)
        print(done.stdout, flush=True)
        code = done.returncode
        again = _failed(cache)
        if code > TESTS_FAILED:
            return code
        reasons = "\n".join(line for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR ")))
        for name in failed:
            if name not in again:
                print(f"FLAKY {name}", flush=True)
        failed = again
        if not failed:
            return code
    print(reasons, flush=True)
    return code


def _command(cache: Path, arguments: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "pytest", "-o", f"cache_dir={cache}", *arguments]


def _failed(cache: Path) -> list[str]:
    """Return the names of the tests that failed in a run."""
    report = cache / "v/cache/lastfailed"
    return list(json.loads(report.read_text())) if report.exists() else []


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="tests-") as temporary:
        sys.exit(run(sys.argv[1:], Path(temporary)))
