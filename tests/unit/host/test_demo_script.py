"""The demo model's scripts: what it does next, told only what the messages hold."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent_host.proxy.providers.demo.provider import decide
from agent_host.proxy.providers.demo.replay import Action
from agent_host.proxy.providers.demo.report import PROGRAM

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


def actions(text: str, results: list[str], **more: Any) -> list[Action | str]:
    return [decide(request(text, results[:count], **more)) for count in range(len(results) + 1)]


def answer(move: Action | str) -> dict[str, Any]:
    assert isinstance(move, str), move
    return json.loads(move)


def test_the_report_step_by_step() -> None:
    *steps, last = actions(TASK, GOOD)
    made = [(step.tool, step.arguments) for step in steps if isinstance(step, Action)]
    assert made == [
        ("glob", {"pattern": "**/*"}),
        ("read", {"path": "brief.md"}),
        ("bash", {"command": "head -n 5 sales.csv", "description": "Show the first rows of the data"}),
        ("write", {"path": "analyse.py", "content": PROGRAM}),
        ("bash", {"command": "python3 analyse.py sales.csv", "description": "Compute the report"}),
        ("read", {"path": "report.md"}),
    ]
    assert all(isinstance(step, Action) and step.text.startswith("[demo model] ") for step in steps)
    final = answer(last)
    assert final["result"] == {**SUMMARY, "report": "report.md", "note": final["result"]["note"]}
    assert "demo model" in final["result"]["note"]
    assert final["promote"] == {"sales/total": 6.0, "sales/top_region": "N", "sales/top_product": "Pen"}


def test_files_are_found_where_they_lie_and_names_are_quoted() -> None:
    files = {"entries": [{"path": "in/the brief.md"}, {"path": "in/q 1.csv"}, {"name": "no path"}, 7]}
    steps = actions("Follow the brief.md, it is about a CSV file.", [ok(files), *GOOD[1:5]])
    assert isinstance(steps[1], Action)
    assert steps[1].arguments == {"path": "in/the brief.md"}
    assert isinstance(steps[4], Action)
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


def test_without_tools_it_answers_in_words() -> None:
    move = decide(request(TASK, [], tools=()))
    assert isinstance(move, str)
    assert move.startswith("[demo model] I am a demo model")


# ---------------------------------------------------------------- chat


def test_a_message_is_answered_by_saying_what_it_is() -> None:
    move = decide(request("What is the capital of France?", []))
    assert isinstance(move, str)
    assert "I am a demo model" in move
    assert "'What is the capital of France?'" in move
    assert "run: ls" in move


def test_a_long_message_is_quoted_in_part() -> None:
    move = decide(request("x" * 10_000, []))
    assert isinstance(move, str)
    assert len(move) < 1_500


def test_run_makes_a_genuine_call_and_tells_what_came_of_it() -> None:
    first, last = actions("Please\nrun: ls -la | wc -l \nthank you", [ok({**BASH, "stdout": "7\n"})])
    assert isinstance(first, Action)
    assert (first.tool, first.arguments["command"]) == ("bash", "ls -la | wc -l")
    assert last == "[demo model] `ls -la | wc -l` ended with 0 and printed:\n\n7"


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (ok({**BASH, "exit_code": 2}), "`x` ended with 2 without output."),
        (ok({**BASH, "timed_out": True}), "`x` was stopped at its deadline without output."),
        (failed("denied"), "`x` could not be run: denied"),
        ("plain words", "`x` ended with None without output."),
    ],
)
def test_run_is_truthful(result: str, words: str) -> None:
    assert decide(request("run: x", [result])) == f"[demo model] {words}"


def test_listing_files() -> None:
    first, last = actions("List the files, please", [ok({"entries": ["a.txt", "b/c.md"]})])
    assert isinstance(first, Action)
    assert first.tool == "glob"
    assert last == "[demo model] There are 2 files:\n\na.txt\nb/c.md"
    assert decide(request("list files", [ok({"entries": []})])) == "[demo model] There are no files."
    assert decide(request("list files", [failed("no")])) == "[demo model] The files could not be listed: no"


def test_only_the_running_turn_counts() -> None:
    before = request("run: first", [ok({**BASH, "stdout": "1"})])["messages"]
    messages = [*before, {"role": "assistant", "content": "It is done."}, {"role": "user", "content": "run: second"}]
    move = decide({**request("", []), "messages": messages})
    assert isinstance(move, Action)
    assert move.arguments["command"] == "second"


def test_a_message_that_joins_a_running_turn_does_not_change_its_script() -> None:
    messages = request("run: first", [ok({**BASH, "stdout": "1"})])["messages"]
    move = decide({**request("", []), "messages": [*messages, {"role": "user", "content": "and hurry"}]})
    assert move == "[demo model] `first` ended with 0 and printed:\n\n1"


def test_parts_strange_messages_and_no_user_are_borne() -> None:
    parts = [{"type": "text", "text": "run: "}, {"type": "image_url"}, {"type": "text", "text": "ls"}]
    move = decide({**request("", []), "messages": ["junk", {"role": "user", "content": parts}]})
    assert isinstance(move, Action)
    assert move.arguments["command"] == "ls"
    quiet = decide({"model": "demo", "messages": [{"role": "system", "content": "Summarise."}], "tools": None})
    assert isinstance(quiet, str)
    assert "You said: 'nothing'" in quiet
