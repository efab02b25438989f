"""Errors and log lines are short, however long the texts are that they quote."""

from __future__ import annotations

import json
import logging

import pytest

from agent_common.errors import InvalidRequest, RequestError, StartError, describe
from agent_common.telemetry import configure, logger
from agent_host.errors import InvalidCall

LONG = "begin " + "x" * (1 << 20) + " end"


@pytest.mark.parametrize("error", [RequestError(LONG), StartError(LONG), InvalidRequest.from_faults([(LONG, LONG)])])
def test_an_error_keeps_both_ends_of_its_text(error: RequestError) -> None:
    assert len(error.message) <= type(error).longest < 30_000
    assert error.message.startswith("begin xxx")
    assert error.message.endswith("xxx end")
    assert " characters) ... " in error.message
    assert len(describe(error)) <= RequestError.longest


def test_the_names_of_fields_are_cut() -> None:
    assert len(InvalidRequest(faults=[(LONG, LONG)]).faults[0][0]) <= 200
    assert len(str(InvalidCall("x", param=LONG).extra["param"])) <= 200
    assert InvalidCall("x").extra == {"param": None}
    assert describe(ValueError()) == "ValueError"


@pytest.mark.parametrize("shape", ["json", "text"])
def test_a_log_line_is_bounded(shape: str, capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    try:
        configure("info", shape)  # type: ignore[arg-type]
        try:
            raise ValueError(LONG)
        except ValueError:
            logger("x").exception(LONG, text=LONG, nested={"a": [LONG]}, number=7, short={"a": 1}, nothing=None)
    finally:
        root.handlers[:], root.level = before
    line = capsys.readouterr().err
    assert len(line) < 40_000
    assert "1048586 characters" in line
    if shape == "json":
        entry = json.loads(line)
        assert (entry["number"], entry["short"], entry["nothing"]) == (7, {"a": 1}, None)
        assert len(entry["text"]) < 4_000
        assert len(entry["nested"]) < 4_000
        assert entry["exception"].startswith("Traceback")
