"""`python -m tests.redteam`: every attempt against the confined runtime and against a bare one, as a table."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace

from .arena import outcomes, unavailable
from .cases import CASES
from .ground import Ground, held
from .page import PAGE, write_page
from .play import Outcome


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.redteam", description=__doc__)
    parser.add_argument("cases", nargs="*", help="names of cases; default: all")
    parser.add_argument("--only", choices=("confined", "bare"))
    parser.add_argument("--server", choices=("root", "user"), default="root", help="whom the confined server runs as")
    parser.add_argument("--backend", default="", help="the backend that must be in force")
    parser.add_argument("--page", action="store_true", help=f"write the outcomes of all cases to {PAGE}")
    parser.add_argument("-v", "--verbose", action="store_true", help="show what the tools answered")
    options = parser.parse_args()
    if unavailable():
        sys.exit(unavailable())
    names = tuple(options.cases)
    if options.page and (names or options.only or options.server != "root" or options.backend):
        parser.error("--page needs all cases, both runs, and the best backend with the server as root")
    grounds = {
        "confined": replace(held(options.backend, options.server), names=names),
        "bare": Ground("off", "own", names=names),
    }
    columns: dict[str, dict[str, Outcome]] = {}
    for title, ground in grounds.items():
        if options.only in (None, title):
            started = time.monotonic()
            columns[title] = {}
            for one in outcomes(ground):
                columns[title][one.name] = one
                if options.verbose:
                    print(f"--- {title} {one.name} ({one.seconds} s) {word(one)}\n{one.output}", file=sys.stderr)
            print(f"{title}: {time.monotonic() - started:.0f} s", file=sys.stderr)
    print(table(columns))
    if options.page:
        write_page(columns["confined"], columns["bare"])
    return int(any(word(one) != "held" for one in columns.get("confined", {}).values()))


def table(columns: dict[str, dict[str, Outcome]]) -> str:
    """One row a case; below it what stood out."""
    rows = [("case", *columns, "what is attempted")]
    rows += [
        (case.name, *(word(column[case.name]) for column in columns.values()), f"{case.category}: {case.tries}")
        for case in CASES
        if all(case.name in column for column in columns.values())
    ]
    return "\n".join((*_lines(rows), "", *(_sum(title, list(column.values())) for title, column in columns.items())))


def word(outcome: Outcome) -> str:
    if not outcome.attempted:
        return "not tried"
    if not outcome.evidence:
        return "held"
    return f"breached: {outcome.evidence}"


def _lines(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _sum(title: str, column: Sequence[Outcome]) -> str:
    breached = sum(bool(one.evidence) for one in column)
    return f"{title}: {len(column)} cases, {breached} breached, {sum(not one.attempted for one in column)} not tried"


if __name__ == "__main__":
    sys.exit(main())
