"""`python -m tests.soak.skills`: plugins go wrong in every way in a live server, then thousands of them come and go."""

from __future__ import annotations

import argparse
import random
import sys

from .findings import Findings
from .reloads import reloads
from .storm import storm


def run(repeats: int, changes: int, seed: int) -> bool:
    """Prints what it finds; whether nothing was wrong."""
    parts = [lambda: storm(repeats)] if repeats else []
    parts += [lambda: reloads(changes, seed)] if changes else []
    found: list[Findings] = []
    for part in parts:
        found.append(part())
        print(found[-1].text(), flush=True)
    return not any(one.faults for one in found)


def arguments(parser: argparse.ArgumentParser) -> None:
    """What `run` wants to be told."""
    parser.add_argument("--repeats", type=int, default=20, help="how often each way to go wrong is gone (default 20)")
    parser.add_argument("--reloads", type=int, default=2000, help="how many changes of plugins (default 2000)")
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000), help="default: another one each time")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.skills", description=__doc__)
    arguments(parser)
    options = parser.parse_args()
    return int(not run(options.repeats, options.reloads, options.seed))


if __name__ == "__main__":
    sys.exit(main())
