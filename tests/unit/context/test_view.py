"""What the model sees."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from agent_runtime.context import Call, Step, View, definition, digest, lower_tools, system_prompt
from agent_runtime.context.lower import lower_step, steps_of
from agent_runtime.ports import ToolSpec
from agent_runtime.sessions import NOTICE, RETRY, Message

DAY = 1_790_000_000_000


@dataclass(frozen=True)
class File:
    name: str
    text: str


def lowered(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [json.loads(message) for step in steps_of(parts) for message in lower_step(step)]


def tool(state: str, **more: Any) -> dict[str, Any]:
    return {"type": "tool-read", "toolCallId": "c1", "state": state, "input": {"path": "a"}, **more}


STEP = {"type": "step-start"}


def test_a_step_becomes_provider_messages() -> None:
    output = {"type": "output", "data": [1], "metadata": {"duration_ms": 12, "truncated": True}}
    parts: list[dict[str, Any]] = [
        STEP,
        {"type": "reasoning", "text": "hm"},
        {"type": "text", "text": "Let me "},
        {"type": "text", "text": "look."},
        tool("output-available", output=output),
        {"type": NOTICE, "data": {"text": "hurry"}},
        STEP,
        {"type": "text", "text": "Done."},
    ]
    assistant, answer, notice, last = lowered(parts)
    assert assistant["content"] == "Let me look."
    assert assistant["tool_calls"] == [
        {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path":"a"}'}}
    ]
    assert answer["tool_call_id"] == "c1"
    assert json.loads(answer["content"]) == {"type": "output", "data": [1], "metadata": {"truncated": True}}
    assert notice == {"role": "user", "content": "hurry"}
    assert last == {"role": "assistant", "content": "Done."}


def test_every_call_has_an_answer_whatever_became_of_it() -> None:
    for part in (
        tool("input-available"),
        tool("input-streaming"),
        tool("output-error", errorText="no", toolMetadata={"metadata": {"kind": "backend", "duration_ms": 1}}),
        tool("output-available", output="odd"),
        {"type": "dynamic-tool", "toolName": "mcp", "toolCallId": "c1", "state": "output-denied"},
    ):
        assistant, answer = lowered([STEP, part])
        assert assistant["content"] is None
        assert answer["role"] == "tool"
        assert answer["content"]
    assert "duration_ms" not in lowered([STEP, tool("output-error", errorText="no")])[1]["content"]


def test_broken_arguments_are_shown_inside_an_object() -> None:
    part = {**tool("output-error", errorText="not JSON"), "input": '{"a'}
    function = lowered([STEP, part])[0]["tool_calls"][0]["function"]
    assert json.loads(function["arguments"]) == {"invalid_arguments": '{"a'}


def test_what_broke_off_is_not_shown() -> None:
    parts = [
        STEP,
        {"type": "text", "text": "half"},
        tool("output-error"),
        {"type": RETRY},
        {"type": "text", "text": "ok"},
    ]
    assert lowered(parts) == [{"role": "assistant", "content": "ok"}]


def test_a_view_grows_at_its_end_only() -> None:
    view = View("prompt")
    view.add_user([{"type": "text", "text": "a"}, {"type": "file"}, {"type": "text", "text": "b"}])
    before = list(view.messages)
    view.add_step(Step("text", [Call("c", "read", {}, {"type": "output"})]))
    assert view.messages[: len(before)] == before
    assert json.loads(before[1]) == {"role": "user", "content": "a\n\nb"}
    assert view.size == sum(map(len, view.messages))


def test_what_is_hidden_or_waits_is_not_in_the_view() -> None:
    def user(text: str, **metadata: int) -> Message:
        return Message(text, "user", metadata, [{"type": "text", "text": text}], 1)

    reply = Message("r", "assistant", {}, [STEP, {"type": "text", "text": "hi"}], 2)
    view = View.of("p", [user("shown"), reply, user("hidden", hidden_at=1), user("queued", queued_at=1)])
    assert [json.loads(message)["role"] for message in view.messages] == ["system", "user", "assistant"]


def test_tools_come_in_the_order_given() -> None:
    specs = [ToolSpec("b", "does b", {"type": "object"}), ToolSpec("a", "does a", {"type": "object"})]
    sent = lower_tools(specs)
    assert sent is not None
    assert json.loads(sent) == [definition(spec) for spec in specs]
    assert lower_tools([]) is None


def test_the_prompt_says_who_where_and_when_and_is_the_same_all_day() -> None:
    files = [File("AGENTS.md", " be good \n"), File("SOUL.md", "  ")]
    first = system_prompt(agent_id="a1", role="tester", files=files, now_ms=DAY)
    later = system_prompt(agent_id="a1", role="tester", files=files, now_ms=DAY + 3_600_000)
    assert first == later
    assert digest(first) == digest(later) != digest(first + " ")
    assert '<file name="AGENTS.md">\nbe good\n</file>' in first
    assert "SOUL.md" not in first
    assert "a1" in first
    assert "tester" in first
    assert "date: 2026-09-21" in first
