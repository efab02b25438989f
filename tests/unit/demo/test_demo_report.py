"""The demo model's report: what it does next, told only what the messages hold."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent_host.proxy import DemoMove
from examples.demo.model import play
from examples.demo.model.report import PROGRAM

TASK = "Task sales_report. Read brief.md in your workspace and do what it asks, with code that reads sales.csv."
TOOLS = ("read", "write", "glob", "bash")
SUMMARY = {"orders": 3, "total": 6.0, "by_region": {"N": 6.0}, "top_region": "N", "top_product": "Pen"}
FILES = {"entries": ["AGENTS.md", "other.csv", "brief.md", "sales.csv"]}
BASH = {"stdout": "", "stderr": "", "exit_code": 0, "timed_out": False}


def ok(data: Any) -> str:
    return json.dumps({"type": "output", "data": data, "metadata": {}})


def failed(text: str) -> str:
    return json.dumps({"type": "error", "error_text": text, "metadata": {}})


GOOD = [
    ok(FILES),
    ok({"content": "# Brief", "total_bytes": 7, "range": [0, 1]}),
    ok({**BASH, "stdout": "order_id,region\n"}),
    ok({"bytes": 10}),
    ok({**BASH, "stdout": json.dumps(SUMMARY) + "\n"}),
    ok({"content": "# Report", "total_bytes": 8, "range": [0, 1]}),
]


def request(text: str, results: list[str], **more: Any) -> dict[str, Any]:
    """The request that a runtime sends after these results."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": "You are."}, {"role": "user", "content": text}]
    for number, result in enumerate(results):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "any", "arguments": "{}"}}
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": result},
        ]
    tools = [{"type": "function", "function": {"name": name}} for name in more.pop("tools", TOOLS)]
    return {"model": "demo", "messages": messages, "tools": tools, **more}


def decide(request: dict[str, Any]) -> DemoMove:
    move = play(request)
    assert move is not None
    return move


def actions(text: str, results: list[str], **more: Any) -> list[DemoMove]:
    return [decide(request(text, results[:count], **more)) for count in range(len(results) + 1)]


def answer(move: DemoMove) -> dict[str, Any]:
    assert move.tool is None, move
    return json.loads(move.text)


def test_the_report_step_by_step() -> None:
    *steps, last = actions(TASK, GOOD)
    made = [(step.tool, step.arguments) for step in steps]
    assert made == [
        ("glob", {"pattern": "**/*"}),
        ("read", {"path": "brief.md"}),
        ("bash", {"command": "head -n 5 sales.csv", "description": "Show the first rows of the data"}),
        ("write", {"path": "analyse.py", "content": PROGRAM}),
        ("bash", {"command": "python3 analyse.py sales.csv", "description": "Compute the report"}),
        ("read", {"path": "report.md"}),
    ]
    assert all(step.text.startswith("[demo model] ") for step in steps)
    final = answer(last)
    assert final["result"] == {**SUMMARY, "report": "report.md", "note": final["result"]["note"]}
    assert "demo model" in final["result"]["note"]
    assert final["promote"] == {"sales/total": 6.0, "sales/top_region": "N", "sales/top_product": "Pen"}


def test_files_are_found_where_they_lie_and_names_are_quoted() -> None:
    files = {"entries": [{"path": "in/the brief.md"}, {"path": "in/q 1.csv"}, {"name": "no path"}, 7]}
    steps = actions("Follow the brief.md, it is about a CSV file.", [ok(files), *GOOD[1:5]])
    assert steps[1].arguments == {"path": "in/the brief.md"}
    assert steps[4].arguments["command"] == "python3 analyse.py 'in/q 1.csv'"


@pytest.mark.parametrize("step", range(6))
def test_a_tool_that_fails_ends_in_a_truthful_answer(step: int) -> None:
    final = answer(decide(request(TASK, [*GOOD[:step], failed("disk on fire")])))
    assert "disk on fire" in final["result"]["error"]
    assert final["result"]["report"] is None
    assert final["promote"] == {}


@pytest.mark.parametrize(
    ("result", "why"),
    [
        (ok({**BASH, "exit_code": 1, "stderr": "no module named csv"}), "it ended with 1: no module named csv"),
        (ok({**BASH, "exit_code": None, "timed_out": True}), "it was stopped at its deadline"),
        (ok({**BASH, "stdout": "not json"}), "reading what analyse.py printed failed"),
    ],
)
def test_a_program_that_fails_ends_in_a_truthful_answer(result: str, why: str) -> None:
    assert why in answer(decide(request(TASK, [*GOOD[:4], result])))["result"]["error"]


def test_missing_files_are_said() -> None:
    final = answer(decide(request(TASK, [ok({"entries": ["notes.txt"]})])))
    assert "found only ['notes.txt']" in final["result"]["error"]


def test_a_missing_tool_is_said() -> None:
    final = answer(decide(request(TASK, GOOD[:2], tools=("glob", "read"))))
    assert "there is no tool 'bash' on offer" in final["result"]["error"]


def test_when_calls_are_no_longer_allowed_it_tells_how_far_it_came() -> None:
    final = answer(decide(request(TASK, GOOD[:3], tool_choice="none")))
    assert final["result"]["error"] == "writing analyse.py failed: no further tool calls were allowed"
    done = answer(decide(request(TASK, GOOD, tool_choice="none")))
    assert done["result"]["orders"] == 3


def test_the_same_messages_give_the_same_move() -> None:
    assert decide(request(TASK, GOOD[:3])) == decide(request(TASK, GOOD[:3]))


def test_what_is_no_report_is_left_to_others() -> None:
    assert play(request(TASK, [], tools=())) is None
    assert play(request("hello", [])) is None
