"""The program that the demo model writes: right on any file of orders, not only on the example."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from examples.demo.model import analyse
from examples.demo.model.report import PROGRAM

SALES = Path(__file__).parents[3] / "examples/sales/sales.csv"
HEAD = ("order_id", "date", "region", "product", "units", "unit_price")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.chdir(tmp_path)


def table(rows: Iterable[Iterable[object]], head: Iterable[str] = HEAD) -> str:
    with Path("data.csv").open("w", newline="") as file:
        csv.writer(file).writerows([head, *rows])
    return "data.csv"


def run(path: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    analyse.main(path)
    return json.loads(capsys.readouterr().out)


def expected(path: Path) -> dict[str, Any]:
    """The same numbers, worked out in another way."""
    groups: dict[str, defaultdict[str, Decimal]] = {name: defaultdict(Decimal) for name in ("region", "product")}
    total, count = Decimal(), 0
    for row in csv.DictReader(path.read_text().splitlines()):
        amount = int(row["units"]) * Decimal(row["unit_price"])
        total, count = total + amount, count + 1
        for name, sums in groups.items():
            sums[row[name] or "unknown"] += amount
    by = {f"by_{name}": {key: float(value) for key, value in sums.items()} for name, sums in groups.items()}
    top = {f"top_{name}": max(sums, key=lambda key: sums[key]) for name, sums in groups.items()}
    return {"orders": count, "total": float(total), **by, **top}


def test_the_example(capsys: pytest.CaptureFixture[str]) -> None:
    found = run(str(SALES), capsys)
    assert found == expected(SALES)
    assert "unknown" in found["by_region"]
    assert any("," in product for product in found["by_product"])
    report = Path("report.md").read_text()
    assert f"Total amount: {found['total']:.2f}" in report
    assert f"Orders: {found['orders']}" in report
    assert f"Top product: **{found['top_product']}**" in report
    for group in ("by_region", "by_product"):
        assert list(found[group].values()) == sorted(found[group].values(), reverse=True)
        assert all(f"| {name} | {amount:.2f} |" in report for name, amount in found[group].items())


def test_other_numbers_give_another_report(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        ("1", "2026-01-01", "North", "Pen", 2, "1.10"),
        ("2", "2026-01-02", "", "Pen|cil", 1, "0.05"),
        ("3", "2026-01-02", " North ", "Note, A5", 3, "10"),
    ]
    assert run(table(rows), capsys) == {
        "orders": 3,
        "total": 32.25,
        "by_region": {"North": 32.2, "unknown": 0.05},
        "by_product": {"Note, A5": 30.0, "Pen": 2.2, "Pen|cil": 0.05},
        "top_region": "North",
        "top_product": "Note, A5",
    }
    assert "| Pen\\|cil | 0.05 |" in Path("report.md").read_text()


def test_other_columns_are_found_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    head = ("Price", "Quantity", "shop", "remark")
    found = run(table([(2, 3, "A", f"remark {n}") for n in range(50)], head), capsys)
    assert found == {"orders": 50, "total": 300.0, "by_shop": {"A": 300.0}, "top_shop": "A"}


@pytest.mark.parametrize(
    ("rows", "head", "why"),
    [
        ([], HEAD, "has no rows"),
        ([("1", "d", "N", "Pen", "two", "1")], HEAD, "column units holds 'two', which is no number"),
        ([("1", "d", "N", "Pen", "NaN", "1")], HEAD, "column units holds 'NaN', which is no number"),
        ([("a", "b")], ("shop", "price"), "there is no column for unit"),
        ([("a", 1)], ("shop", "units"), "there is no column for price"),
    ],
)
def test_a_file_it_cannot_read_is_said(rows: list[tuple[object, ...]], head: tuple[str, ...], why: str) -> None:
    with pytest.raises(SystemExit) as caught:
        analyse.main(table(rows, head))
    assert why in str(caught.value.code)


def test_it_runs_as_the_program_that_is_written() -> None:
    Path("analyse.py").write_text(PROGRAM)
    path = table([("1", "d", "N", "Pen", 2, "3")])
    done = subprocess.run([sys.executable, "analyse.py", path], capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout)["total"] == 6.0
