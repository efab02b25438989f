"""How the demo model gives itself a tool: it writes one, reads what the trial says of it, mends it, and calls it."""

from __future__ import annotations

import csv
import re
from collections.abc import Generator, Mapping

from .replay import NOTE, Action, ReplayResult, ReplayTurn

NAME = "median_order"
CREATE = "create_skill"

CODE = '''\
"""Figures over files of orders that a few large orders do not distort."""

import csv
import statistics
from collections import defaultdict
from decimal import Decimal

from agent_runtime.skills import skill


@skill(read_only=True)
def median_order(path: str, by: str, *, workspace) -> dict:
    """The median amount of an order in each group of a CSV file of orders. Not for totals.

    Args:
        path: The CSV file, relative to the workspace
        by: The column to group by; orders with nothing there are `unknown`
    """
    groups = defaultdict(list)
    with (workspace / path).open(newline="", encoding="utf-8-sig") as file:
        for row in csv.DictReader(file):
            groups[row[by].strip() or "unknown"].append(AMOUNT)
    return {name: round(float(statistics.median(amounts)), 2) for name, amounts in sorted(groups.items())}
'''
"""What it writes, but for the amount of an order."""
FIRST_AMOUNT = 'Decimal(row["amount"])'
"""The mistake of the first version: the brief speaks of an amount, yet most files have no such column."""

_ASKED = re.compile(r"\bmedian\b[^.;]*?\bby (\w+)", re.IGNORECASE)


def median_wanted(brief: str) -> str | None:
    """The column by which a brief wants medians, if it wants some."""
    found = _ASKED.search(brief)
    return found[1] if found else None


def medians(turn: ReplayTurn, data: str, by: str, head: str) -> Generator[Action, ReplayResult, ReplayResult]:
    """The median order by group, from a tool that is made first unless an earlier turn has made it."""
    if NAME not in turn.tools or CREATE in turn.called:
        made = yield from _create_tool(data, by, head)
        if made.error:
            return made
    return (yield Action(NAME, {"path": data, "by": by}, f"[{NOTE}] I call my tool {NAME}."))


def _create_tool(data: str, by: str, head: str) -> Generator[Action, ReplayResult, ReplayResult]:
    test = {"arguments": {"path": data, "by": by}}
    first = {"name": NAME, "code": CODE.replace("AMOUNT", FIRST_AMOUNT), "test": test}
    tried = yield Action(CREATE, first, f"[{NOTE}] No tool gives medians: I write one, and have it tried on {data}.")
    factors = _factors(head)
    if tried.error is None or "KeyError: 'amount'" not in tried.error or factors is None:
        return tried
    line = re.search(r"line \d+", tried.error)
    told = (
        f"There is no column amount ({line[0] if line else 'says the trial'}): it is {' * '.join(factors)}. I mend it."
    )
    amount = " * ".join(f"Decimal(row[{name!r}])" for name in factors)
    return (yield Action(CREATE, {**first, "code": CODE.replace("AMOUNT", amount)}, f"[{NOTE}] {told}"))


def _factors(head: str) -> tuple[str, str] | None:
    """The columns of the file whose product is the amount of an order."""
    names = next(csv.reader(head.splitlines()), list[str]())
    price = next((name for name in names if "price" in name.lower()), None)
    count = next((name for name in names if name != price and re.search("unit|quantity", name.lower())), None)
    return (count, price) if price and count else None


def medians_section(by: str, found: Mapping[str, float]) -> str:
    """The medians as a part of the report."""
    rows = [f"| {name.replace('|', chr(92) + '|')} | {amount:.2f} |" for name, amount in found.items()]
    return "\n".join(["", f"## Median order by {by}", "", f"| {by} | median |", "|---|---:|", *rows, ""])
