"""`python -m tests.soak`: a crowd works with a runtime that is killed again and again; then the record is held to
everything that was promised. The schedule is a function of the seed."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path

from .driver import soak
from .report import text


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="how often the server dies (default 200)")
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000), help="default: another one each time")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the data and the logs there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="soak-") as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        found = soak(options.seed, options.kills, folder)
        (folder / "faults.txt").write_text("\n".join(found.faults), "utf-8")
    print(text(found))
    return int(bool(found.faults))


if __name__ == "__main__":
    sys.exit(main())
