"""The end of `make demo`: the report for a person, lines for a program."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from agent_common.protocol import TaskResult
from examples.demo.__main__ import print_result


@pytest.mark.parametrize("terminal", [False, True])
def test_a_person_reads_the_report_and_a_program_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], terminal: bool
) -> None:
    (report := tmp_path / "report.md").write_text("# Sales\n\n**300** orders\n")
    result = TaskResult(task_id="t", status="complete", result={"orders": 300})
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    print_result(report, result)
    lines = capsys.readouterr().out.splitlines()
    if terminal:
        assert "300 orders" in " ".join(lines)
        assert (lines[-1], "complete" in " ".join(lines)) == (f"report: {report}", False)
    else:
        assert lines[0] == f"report: {report}"
        assert json.loads(lines[1])["status"] == "complete"
