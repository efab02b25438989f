"""The demo model's chat: what it does next, told only what the messages hold."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent_common.protocol import TaskAssignment
from agent_host.proxy.providers.demo import DemoMove, decide
from agent_runtime.loop.requests.task_result import task_message

TOOLS = ("glob", "bash")
BASH = {"stdout": "", "stderr": "", "exit_code": 0, "timed_out": False}


def ok(data: Any) -> str:
    return json.dumps({"type": "output", "data": data, "metadata": {}})


def failed(text: str) -> str:
    return json.dumps({"type": "error", "error_text": text, "metadata": {}})


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


def actions(text: str, results: list[str], **more: Any) -> list[DemoMove]:
    return [decide(request(text, results[:count], **more)) for count in range(len(results) + 1)]


def test_a_message_is_answered_by_saying_what_it_is() -> None:
    move = decide(request("What is the capital of France?", []))
    assert move.tool is None
    assert "I am a demo model" in move.text
    assert "'What is the capital of France?'" in move.text
    assert "run: ls" in move.text


@pytest.mark.parametrize("more", [{}, {"input_data": {"run": "run: ls"}}, {"context": {"a": "list files"}}])
def test_of_a_task_the_objective_counts(more: dict[str, Any]) -> None:
    known = {"task_id": "t", "workflow_id": "w", "step_id": "s", "task_type": "message"}
    asked = task_message(TaskAssignment.model_validate({**known, "objective": "What is this?\nGo on.", **more}))
    assert "You said: 'What is this?\\nGo on.'. I can" in decide(request(asked, [])).text
    asked = task_message(TaskAssignment.model_validate({**known, "objective": "run: date", **more}))
    assert decide(request(asked, [])).arguments["command"] == "date"


def test_a_long_message_is_quoted_in_part() -> None:
    move = decide(request("x" * 10_000, []))
    assert move.tool is None
    assert len(move.text) < 1_500


def test_run_makes_a_genuine_call_and_tells_what_came_of_it() -> None:
    first, last = actions("Please\nrun: ls -la | wc -l \nthank you", [ok({**BASH, "stdout": "7\n"})])
    assert (first.tool, first.arguments["command"]) == ("bash", "ls -la | wc -l")
    assert last.text == "[demo model] `ls -la | wc -l` ended with 0 and printed:\n\n    7"


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
    assert decide(request("run: x", [result])).text == f"[demo model] {words}"


def test_listing_files() -> None:
    first, last = actions("List the files, please", [ok({"entries": ["a.txt", "b/c.md"]})])
    assert first.tool == "glob"
    assert last.text == "[demo model] There are 2 files:\n\n    a.txt\n    b/c.md"
    assert decide(request("list files", [ok({"entries": []})])).text == "[demo model] There are no files."
    assert "There is 1 file:" in (decide(request("list files", [ok({"entries": ["a"]})])).text or "")
    assert decide(request("list files", [failed("no")])).text == "[demo model] The files could not be listed: no"


def test_only_the_running_turn_counts() -> None:
    before = request("run: first", [ok({**BASH, "stdout": "1"})])["messages"]
    messages = [*before, {"role": "assistant", "content": "It is done."}, {"role": "user", "content": "run: second"}]
    move = decide({**request("", []), "messages": messages})
    assert move.arguments["command"] == "second"


def test_a_message_that_joins_a_running_turn_does_not_change_its_script() -> None:
    messages = request("run: first", [ok({**BASH, "stdout": "1"})])["messages"]
    move = decide({**request("", []), "messages": [*messages, {"role": "user", "content": "and hurry"}]})
    assert move.text == "[demo model] `first` ended with 0 and printed:\n\n    1"


def test_parts_strange_messages_and_no_user_are_borne() -> None:
    parts = [{"type": "text", "text": "run: "}, {"type": "image_url"}, {"type": "text", "text": "ls"}]
    move = decide({**request("", []), "messages": ["junk", {"role": "user", "content": parts}]})
    assert move.arguments["command"] == "ls"
    quiet = decide({"model": "demo", "messages": [{"role": "system", "content": "Summarise."}], "tools": None})
    assert quiet.tool is None
    assert "You said: 'nothing'" in quiet.text
