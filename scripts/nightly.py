"""Run the long proofs part by part, go on after a red one, and print a table.

    python -m scripts.nightly                  # all parts
    python -m scripts.nightly quick page       # some

Each part leaves its output in `.nightly/PART.log`. Exits with 1 if any part is red.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

LOGS = Path(".nightly")
PART_SECONDS = 2 * 60 * 60
_COUNT = re.compile(r"(\d+) (passed|failed|errors?)\b")
_CLOSING = re.compile(r"^=*\s*(?:\d+ \w+,? ?)+ in [\d.]+s", re.MULTILINE)
_AGAIN = re.compile(r"^Running \d+ failed tests again(?s:.)*?^=*\s*(?:\d+ \w+,? ?)+ in [\d.]+s.*$", re.MULTILINE)
"""A second run of what has failed, up to its closing line."""
_FLAKY = re.compile(r"^FLAKY ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Part:
    """A command of `make`, what it is told, and the environment that makes it long."""

    name: str
    target: str
    arguments: str = ""
    env: Mapping[str, str] = field(default_factory=dict[str, str])


NO_SKIP = {"CI": "true"}
"""Without a PostgreSQL server its tests fail."""
MANY = {"HYPOTHESIS_PROFILE": "ci", **NO_SKIP}
PARTS = (
    Part("check", "check"),
    Part("coverage", "coverage", env=MANY),
    Part("slow", "test-slow", env=MANY),
    Part("machine", "test-machine", env=NO_SKIP),
    Part("ahead", "test-ahead"),
    Part("mcp", "mcp-conformance"),
    Part("page", "page-test"),
    Part("wheel", "wheel-test"),
    Part("container", "container-test"),
    Part("microvm", "microvm-test"),
    Part("soak", "soak", "--kills 20"),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a part ended; counts are sums over its runs of pytest."""

    part: str
    green: bool
    passed: int
    failed: int
    flaky: int
    minutes: float

    def row(self) -> str:
        verdict = "green" if self.green else "RED"
        counts = f"{self.passed} | {self.failed} | {self.flaky}"
        return f"| {self.part} | {verdict} | {counts} | {self.minutes:.1f} |"


def read_outcome(part: str, code: int, seconds: float, output: str) -> Outcome:
    """Sum up the closing lines that pytest printed; a test that was run again to see whether it is luck counts once."""
    counts = {"passed": 0, "failed": 0}
    for line in _CLOSING.findall(_AGAIN.sub("", output)):
        for number, word in _COUNT.findall(line):
            counts["passed" if word == "passed" else "failed"] += int(number)
    flaky = len(_FLAKY.findall(output))
    passed = counts["passed"] + flaky
    failed = counts["failed"] - flaky
    return Outcome(part, code == 0, passed, failed, flaky, seconds / 60)


def run(part: Part) -> Outcome:
    """Run a part, with its output in its log."""
    began = time.monotonic()
    log = LOGS / f"{part.name}.log"
    with log.open("wb") as output:
        try:
            done = subprocess.run(
                ["make", part.target, f"ARGS={part.arguments}"],
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **part.env},
                timeout=PART_SECONDS,
            )
            code = done.returncode
        except subprocess.TimeoutExpired:
            code = 124
    return read_outcome(part.name, code, time.monotonic() - began, log.read_text(errors="replace"))


def main(names: Sequence[str]) -> int:
    known = [part.name for part in PARTS]
    if unknown := set(names) - set(known):
        print(f"nightly: no part {', '.join(sorted(unknown))}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    LOGS.mkdir(exist_ok=True)
    outcomes: list[Outcome] = []
    for part in PARTS:
        if not names or part.name in names:
            outcomes.append(run(part))
            print(outcomes[-1].row(), flush=True)
    print("\n| part | | passed | failed | flaky | minutes |\n|---|---|---|---|---|---|")
    print("\n".join(outcome.row() for outcome in outcomes))
    return int(not all(outcome.green for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
