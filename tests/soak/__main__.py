"""`python -m tests.soak`: a crowd works with a runtime that is killed again and again; then the record is held to
everything that was promised. After that, plugins go wrong in every way, come and go; then work goes over a mediation
channel whose connections break and whose ends die. What happens is a function of the seed."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from .driver import soak
from .mediation import __main__ as mediation
from .report import text
from .skills.__main__ import arguments, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="how often the server dies (default 200)")
    arguments(parser)
    mediation.arguments(parser)
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the data and the logs there")
    options = parser.parse_args()
    sound = _kills(options) if options.kills else True
    sound = run(options.repeats, options.reloads, options.seed) and sound
    return int(not (mediation.run(options) and sound))


def _kills(options: argparse.Namespace) -> bool:
    with tempfile.TemporaryDirectory(prefix="soak-") as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        found = soak(options.seed, options.kills, folder)
        (folder / "faults.txt").write_text("\n".join(found.faults), "utf-8")
    print(text(found), flush=True)
    return not found.faults


if __name__ == "__main__":
    sys.exit(main())
