"""The nightly's table counts what pytest printed."""

from __future__ import annotations

import pytest

from scripts.nightly import PARTS, main, read_outcome

RED = """\
........
FAILED tests/a.py::one - AssertionError
============ 1 failed, 7 passed, 2 skipped in 1.23s ============
"""
FLAKY = """\
=============== 2 failed, 7 passed in 100.10s (0:01:40) ===============

Running 2 failed tests again, alone
============ 1 failed, 1 passed in 1.00s ============
FLAKY tests/a.py::one

Running 1 failed tests again, alone
============ 1 passed in 1.00s ============
FLAKY tests/a.py::two
"""
FLAKY_TWICE = FLAKY + FLAKY.replace("one", "three").replace("two", "four")
TWO_RUNS = "7 passed in 1.00s\n==== 3 passed, 1 error in 2.50s ====\n"


@pytest.mark.parametrize(
    ("output", "code", "passed", "failed", "flaky"),
    [
        (RED, 1, 7, 1, 0),
        (FLAKY, 0, 9, 0, 2),
        (FLAKY_TWICE, 0, 18, 0, 4),
        (TWO_RUNS, 1, 10, 1, 0),
        ("all is well\n", 0, 0, 0, 0),
    ],
)
def test_counts(output: str, code: int, passed: int, failed: int, flaky: int) -> None:
    outcome = read_outcome("part", code, 90, output)
    assert (outcome.passed, outcome.failed, outcome.flaky) == (passed, failed, flaky)
    assert outcome.green == (code == 0)
    assert outcome.row().endswith("| 1.5 |")


def test_an_unknown_part_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["no-such-part"]) == 2
    assert "no part no-such-part; there are check, coverage, slow" in capsys.readouterr().err


def test_no_database_is_skipped() -> None:
    """Where there is no PostgreSQL its tests are skipped, but not under `CI`."""
    assert [part.name for part in PARTS if part.env.get("CI") == "true"] == ["coverage", "slow", "machine"]
