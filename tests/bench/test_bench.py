"""The bench itself works; how fast anything is, no test says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.report import Round, lines, table
from tests.bench.rows import BARS, COLD_START, GROWTH, ROWS


def test_ratios_are_taken_within_a_round_and_bars_are_judged_by_them() -> None:
    rounds = [
        Round({COLD_START: 100, "tokens/s": 10, "tool round, ms": 3}, {COLD_START: 100, "tokens/s": 100}),
        Round({COLD_START: 500, "tokens/s": 60, "tool round, ms": 1}, {COLD_START: 200, "tokens/s": 100}),
        Round({COLD_START: 300, "tokens/s": 40, "tool round, ms": 2}, {COLD_START: 300, "tokens/s": 100}),
    ]
    cold, tokens, tool = lines(rounds)
    assert (cold.ours, cold.floor, cold.ratio, cold.passed) == (300, 200, 1.0, True)
    assert (tokens.ratio, tokens.passed) == (0.4, False)
    assert (tool.ours, tool.floor, tool.ratio, tool.passed) == (2, None, None, None)
    text = table([cold, tokens, tool])
    assert "ok" in text
    assert "MISSED" in text


def test_growth_is_what_we_spend_above_the_floor() -> None:
    early, late = "CPU at turn 10, ms", "CPU at turn 200, ms"
    grown = lines([Round({early: 3, late: 5}, {early: 1, late: 2})])[-1]
    assert (grown.metric, grown.ours, grown.passed) == (GROWTH, 1.5, True)
    lost = lines([Round({early: 1, late: 5}, {early: 1, late: 2})])[-1]
    assert lost.passed is False
    under = lines([Round({early: 2, late: 2}, {early: 1, late: 3})])[-1]
    assert (under.ours, under.passed) == (0, True)


def test_every_bar_belongs_to_a_metric() -> None:
    metrics = {COLD_START, GROWTH}.union(*(row.reduce for row in ROWS))
    assert set(BARS) <= metrics


@pytest.mark.timeout(120)
def test_the_bench_measures_live_processes(tmp_path: Path) -> None:
    rows = [part for name in ("cold", "turn", "first") for part in ("--only", name)]
    command = [sys.executable, "-m", "tests.bench", "--against-itself", "--quick", "--json", tmp_path / "found.json"]
    done = subprocess.run([*command, *rows], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert "turn p50, ms" in done.stdout
    found = json.loads((tmp_path / "found.json").read_text())
    assert all(line["ours"] > 0 and line["floor"] > 0 for line in found["lines"])
