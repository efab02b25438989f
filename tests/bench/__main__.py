"""`python -m tests.bench`: our runtime beside a bare floor, both live, against the same scripted provider.

Absolute figures swing with the machine; the ratios are what to keep. A missed bar is printed, and is an error only
with --strict.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, replace
from pathlib import Path

from .report import Round, lines, table
from .rounds import note, take_round
from .rows import GROWTH, ROWS
from .targets import FLOOR, OURS, provider, running

COLD = "cold"


def main() -> int:
    options = _options()
    ours = replace(FLOOR, name="ours") if options.against_itself else OURS
    rows = [row for row in ROWS if not options.only or row.name in options.only]
    if options.against_itself:
        rows = [row for row in rows if row.floor_too]
    if options.quick:
        rows = [replace(row, slices=min(row.slices, 2)) for row in rows]
    starts = 0 if options.only and COLD not in options.only else 3 if options.quick else 5
    with provider() as url:
        for target in (ours, FLOOR):  # the first start compiles what later ones load
            with running(target, url):
                note(f"{target.name} runs")
        rounds: list[Round] = []
        for number in range(1 if options.quick else options.rounds):
            note(f"round {number + 1}")
            rounds.append(take_round(ours, FLOOR, rows, starts, url))
    # What a thing costs above itself is noise, and noise has no growth.
    found = [line for line in lines(rounds) if line.metric != GROWTH or not options.against_itself]
    print(table(found))
    if options.json:
        described = {"lines": [asdict(line) for line in found], "rounds": [asdict(one) for one in rounds]}
        options.json.write_text(json.dumps(described, indent=2) + "\n", "utf-8")
    return int(options.strict and any(line.passed is False for line in found))


def _options() -> argparse.Namespace:
    names = [COLD, *(row.name for row in ROWS)]
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="rounds, each with fresh processes (default 3)")
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--only", action="append", choices=names, metavar="ROW", help=f"one of {', '.join(names)}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    parser.add_argument("--strict", action="store_true", help="exit 1 when a bar is missed")
    parser.add_argument("--against-itself", action="store_true", help="measure the floor twice: shows the noise")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
