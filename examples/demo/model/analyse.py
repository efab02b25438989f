"""Totals of a CSV file by group, as report.md and as JSON on standard output.

Usage: python3 analyse.py FILE.csv

The amount of a row is its quantity times its price. Every other column is a group, apart from ids, dates and
columns with hardly a value twice.
"""

from __future__ import annotations

import csv
import json
import sys
from collections import defaultdict
from decimal import Decimal, InvalidOperation
from pathlib import Path

Row = dict[str, str]
Totals = list[tuple[str, Decimal]]


def main(path: str) -> None:
    with Path(path).open(newline="", encoding="utf-8-sig") as file:
        rows = [{key: value or "" for key, value in row.items() if key} for row in csv.DictReader(file)]
    if not rows:
        sys.exit(f"{path} has no rows")
    quantity = column(rows, "unit", "quantity")
    price = column(rows, "price")
    amounts = [number(row, quantity) * number(row, price) for row in rows]
    groups = {name: totals(rows, amounts, name) for name in group_columns(rows, {quantity, price})}
    Path("report.md").write_text(render(path, amounts, groups), encoding="utf-8")
    sys.stdout.write(json.dumps(summary(amounts, groups), ensure_ascii=False) + "\n")


def column(rows: list[Row], *words: str) -> str:
    """The column named after one of the words; a price is no quantity, though `unit_price` holds both."""
    for name in rows[0]:
        if any(word in name.lower() for word in words) and ("price" in words or "price" not in name.lower()):
            return name
    sys.exit(f"there is no column for {words[0]}; there are {', '.join(rows[0])}")


def number(row: Row, name: str) -> Decimal:
    try:
        value = Decimal(row[name].strip())
        return value if value.is_finite() else Decimal("no number")
    except InvalidOperation:
        sys.exit(f"column {name} holds {row[name]!r}, which is no number, in {row}")


def group_columns(rows: list[Row], numbers: set[str]) -> list[str]:
    names = [name for name in rows[0] if name not in numbers and not name.lower().endswith(("id", "date"))]
    return [name for name in names if len({row[name] for row in rows}) <= max(20, len(rows) // 2)]


def totals(rows: list[Row], amounts: list[Decimal], name: str) -> Totals:
    """Amount by value of a column, highest first; a missing value counts as `unknown`."""
    sums: defaultdict[str, Decimal] = defaultdict(Decimal)
    for row, amount in zip(rows, amounts, strict=True):
        sums[row[name].strip() or "unknown"] += amount
    return sorted(sums.items(), key=lambda entry: (-entry[1], entry[0]))


def summary(amounts: list[Decimal], groups: dict[str, Totals]) -> dict[str, object]:
    return {
        "orders": len(amounts),
        "total": figure(sum(amounts, Decimal())),
        **{f"by_{name}": {value: figure(amount) for value, amount in entries} for name, entries in groups.items()},
        **{f"top_{name}": entries[0][0] for name, entries in groups.items()},
    }


def render(path: str, amounts: list[Decimal], groups: dict[str, Totals]) -> str:
    lines = ["# Report", "", f"From {len(amounts)} orders in `{Path(path).name}`.", ""]
    lines += [f"- Orders: {len(amounts)}", f"- Total amount: {money(sum(amounts, Decimal()))}"]
    for name, entries in groups.items():
        lines += ["", f"## Total amount by {name}", "", f"| {name} | amount |", "|---|---:|"]
        lines += [f"| {value.replace('|', chr(92) + '|')} | {money(amount)} |" for value, amount in entries]
    for name, entries in groups.items():
        lines += ["", f"Top {name}: **{entries[0][0]}** with {money(entries[0][1])}."]
    return "\n".join(lines) + "\n"


def figure(amount: Decimal) -> float:
    return float(money(amount))


def money(amount: Decimal) -> str:
    return f"{amount:.2f}"


if __name__ == "__main__":
    main(sys.argv[1])
