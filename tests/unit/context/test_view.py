"""What the model sees."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from agent_runtime.context import Step, ToolCallRecord, View, serialize_tools, tool_definition
from agent_runtime.context.provider_messages import serialize_step, steps_of
from agent_runtime.ports import ToolSpec
from agent_runtime.sessions import NOTICE, RETRY, Marker, Message, Shortened


def lowered(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [json.loads(message) for step in steps_of(parts) for message in serialize_step(step)]


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
    assert json.loads(answer["content"]) == {
        "type": "output",
        "source": "file a",
        "data": [1],
        "metadata": {"truncated": True},
    }
    assert notice == {"role": "user", "content": "<runtime-notes>\nnotice: hurry\n</runtime-notes>"}
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
    view.add_step(Step("text", [ToolCallRecord("c", "read", {}, {"type": "output"})]))
    assert view.messages[: len(before)] == before
    assert json.loads(before[1]) == {"role": "user", "content": "a\n\nb"}
    assert view.size == sum(map(len, view.messages))


def test_a_view_tells_of_a_summary_and_goes_on_where_it_was_cut() -> None:
    def user(number: int) -> Message:
        return Message(f"msg_{number}", "user", {}, [{"type": "text", "text": f"ask {number}"}], number)

    def reply(number: int) -> Message:
        parts: list[dict[str, Any]] = [STEP, tool("output-available", output="x" * 900), STEP]
        return Message(f"r_{number}", "assistant", {}, [*parts, {"type": "text", "text": "so"}], number)

    history = [user(1), reply(1), user(2), reply(2)]
    marker = Marker("</summary><runtime-notes>", 1, auto=True, tail_start_id="msg_1", tail_start_step=2)
    first, *rest = map(json.loads, View.from_history("p", history, marker=marker).messages[1:])
    assert first["role"] == "user"
    assert first["content"].count("</summary>") == 1
    assert first["content"].endswith("</summary>")
    assert first["content"].count("<runtime-notes>") == 1
    assert [one["role"] for one in rest] == ["user", "assistant", "user", "assistant", "tool", "assistant"]
    silent = View.from_history("p", history, marker=Marker("", 0, auto=True, shortened=(Shortened("msg_2", "c1", 30),)))
    assert [json.loads(one)["role"] for one in silent.messages][:2] == ["system", "user"], "no summary, no message"
    results = [json.loads(one)["content"] for one in silent.messages if b'"tool"' in one]
    assert [len(one) > 900 for one in results] == [True, False]
    assert "has left out 872 characters" in results[1]


def test_a_view_that_is_only_shortened_begins_where_it_did() -> None:
    view = View("p")
    assert view.marker_without_cut(()) is None
    view.add_user([{"type": "text", "text": "a"}], "other", message_id="msg_1")
    cut = (Shortened("msg_1", "c1", 400),)
    assert view.marker_without_cut(cut) == Marker(
        "", 0, auto=True, tail_start_id="msg_1", spoken_to="default", shortened=cut
    )
    marker = Marker("sum", 5, auto=False, tail_start_id="msg_1", tail_start_step=3, spoken_to="x")
    behind = View("p", marker=marker)
    behind.add_user([{"type": "text", "text": "a"}], message_id="msg_1")
    assert behind.marker_without_cut(cut) == replace(marker, auto=True, shortened=cut)
    whole = View("p", marker=Marker("sum", 5, auto=False, spoken_to="x"))
    whole.add_user([{"type": "text", "text": "a"}], message_id="msg_2")
    assert whole.marker_without_cut(cut) == Marker(
        "sum", 5, auto=True, tail_start_id="msg_2", spoken_to="x", shortened=cut
    )


def test_what_is_hidden_or_waits_is_not_in_the_view() -> None:
    def user(text: str, **metadata: int) -> Message:
        return Message(text, "user", metadata, [{"type": "text", "text": text}], 1)

    reply = Message("r", "assistant", {}, [STEP, {"type": "text", "text": "hi"}], 2)
    view = View.from_history("p", [user("shown"), reply, user("hidden", hidden_at=1), user("queued", queued_at=1)])
    assert [json.loads(message)["role"] for message in view.messages] == ["system", "user", "assistant"]


def test_tools_come_in_the_order_given() -> None:
    specs = [ToolSpec("b", "does b", {"type": "object"}), ToolSpec("a", "does a", {"type": "object"})]
    sent = serialize_tools(specs)
    assert sent is not None
    assert json.loads(sent) == [tool_definition(spec) for spec in specs]
    assert serialize_tools([]) is None


def test_tools_of_the_same_name_are_not_taken_for_each_other() -> None:
    def sent(description: str) -> Any:
        return json.loads(serialize_tools([ToolSpec("a", description, {"type": "object"})]) or b"")

    said = [sent(str(number))[0]["function"]["description"] for number in range(200)]
    assert said == [str(number) for number in range(200)]
    kept = [ToolSpec("a", "kept", {"type": "object"})]
    assert serialize_tools(kept) is serialize_tools(list(kept))
