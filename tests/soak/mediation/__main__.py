"""`python -m tests.soak.mediation`: a host, its guests and real work, while connections break, both ends are killed at
every transition of their ledgers, and everything flaps. What happens is a function of the seed; how it meets is up to
the machine."""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
from pathlib import Path

from .driver import storm
from .flapping import flapping
from .report import text


def run(options: argparse.Namespace) -> bool:
    """Prints what it finds; whether nothing was wrong. Options are those of `arguments`, `seed` and `keep`."""
    seed, sound = options.seed, True
    with tempfile.TemporaryDirectory(prefix="med-") as temporary:
        folder = (options.keep or Path(temporary)) / "mediation"
        if options.requests:
            found = asyncio.run(storm(seed, options.requests, options.agents, folder / "storm", rounds=options.rounds))
            print(text(found), flush=True)
            sound = not found.faults
        if options.flap:
            found = asyncio.run(flapping(seed, options.flap, folder / "flapping"))
            print(text(found), flush=True)
            sound = sound and not found.faults
    return sound


def arguments(parser: argparse.ArgumentParser) -> None:
    """What `run` wants to be told, but for the seed."""
    parser.add_argument("--requests", type=int, default=1000, help="how much work goes over the channel (default 1000)")
    parser.add_argument("--agents", type=int, default=20, help="how many guests do it (default 20)")
    parser.add_argument("--flap", type=float, default=60, help="seconds of connections that flap (default 60)")
    parser.add_argument("--rounds", type=int, default=2, help="how often each end dies at each transition (default 2)")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.mediation", description=__doc__)
    arguments(parser)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000), help="default: another one each time")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the data and the logs there")
    options = parser.parse_args()
    return int(not run(options))


if __name__ == "__main__":
    sys.exit(main())
