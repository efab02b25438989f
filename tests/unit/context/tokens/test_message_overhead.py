"""What the frame of a request costs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent_runtime.context import serialize_tools
from agent_runtime.context.tokens import EncodingName
from agent_runtime.context.tokens.encodings import encoder
from agent_runtime.context.tokens.message_overhead import CALL, MESSAGE, PICTURE, REPLY, message_tokens, tools_tokens
from agent_runtime.ports import ToolSpec
from tests.unit.context.tokens.corpus import called, message

count = encoder("o200k_base").count


def test_messages_count_as_openai_says() -> None:
    """The example of OpenAI's cookbook, and what the API reports for it: 129 for gpt-4, 124 for gpt-4o."""
    said = [
        ("system", None, "You are a helpful, pattern-following assistant that translates corporate jargon into plain "
         "English."),
        ("system", "example_user", "New synergies will help drive top-line growth."),
        ("system", "example_assistant", "Things working well together will increase revenue."),
        ("system", "example_user", "Let's circle back when we have more bandwidth to touch base on opportunities for "
         "increased leverage."),
        ("system", "example_assistant", "Let's talk later when we're less busy about how to do better."),
        ("user", None, "This late pivot means we don't have time to boil the ocean for the client deliverable."),
    ]  # fmt: skip
    messages = [message(role, text, **({"name": name} if name else {})) for role, name, text in said]
    expected: dict[EncodingName, int] = {"cl100k_base": 129, "o200k_base": 124}
    for name, reported in expected.items():
        assert REPLY + sum(message_tokens(one, encoder(name).count) for one in messages) == reported


def test_a_tool_call_costs_its_name_and_its_arguments() -> None:
    one = called("read", {"path": "a.md"})
    assert message_tokens(one, count) == MESSAGE + count("assistant") + CALL + count("read") + count('{"path":"a.md"}')
    assert message_tokens(called("read", {"path": "a.md"}, "So."), count) == message_tokens(one, count) + count("So.")


def test_the_id_of_a_call_costs_nothing() -> None:
    short, long = (message("tool", "done", tool_call_id=one) for one in ("1", "call_01JD3M5Q8R7X9K2"))
    assert message_tokens(short, count) == message_tokens(long, count) == MESSAGE + count("tool") + count("done")


def test_content_in_parts_costs_its_texts_and_a_picture_a_flat_sum() -> None:
    parts = [{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": "data:..."}}]
    expected = MESSAGE + count("user") + count("What is this?") + PICTURE
    assert message_tokens(message("user", parts), count) == expected


@pytest.mark.parametrize(
    "odd",
    [
        b"",
        b"{",
        b"[1]",
        b'"text"',
        b"\xff\xfe",
        b'{"role": "user", "content": "\\ud800"}',
        b'{"role": 7, "content": {"a": 1}, "x": true}',
        b'{"role": "assistant", "tool_calls": [1, {"function": 2}, {"function": {"name": 3}}]}',
        b'{"role": "user", "content": [null, "text", {"text": 5}]}',
    ],
)
def test_what_is_no_message_costs_something_all_the_same(odd: bytes) -> None:
    assert message_tokens(odd, count) >= MESSAGE


# ---------------------------------------------------------------- tools


def of(*parameters: dict[str, Any], description: str = "Reads a file.") -> bytes:
    tools = serialize_tools(
        [ToolSpec(f"read{number}", description, schema) for number, schema in enumerate(parameters)]
    )
    assert tools is not None
    return tools


def test_tools_count_as_openai_says() -> None:
    """The example of OpenAI's cookbook, and what the API reports for it: 105 for gpt-4, 101 for gpt-4o."""
    schema = {
        "type": "object",
        "properties": {
            "location": {"type": "string", "description": "The city and state, e.g. San Francisco, CA"},
            "unit": {
                "type": "string",
                "description": "The unit of temperature to return",
                "enum": ["celsius", "fahrenheit"],
            },
        },
        "required": ["location"],
    }
    function = {"name": "get_current_weather", "description": "Get the current weather in a given location"}
    tools = json.dumps([{"type": "function", "function": {**function, "parameters": schema}}]).encode()
    asked = [
        message("system", "You are a helpful assistant that can answer to questions about the weather."),
        message("user", "What's the weather like in San Francisco?"),
    ]
    expected: dict[EncodingName, int] = {"cl100k_base": 105, "o200k_base": 101}
    for name, reported in expected.items():
        counter = encoder(name).count
        of_messages = sum(message_tokens(one, counter) for one in asked)
        assert REPLY + of_messages + tools_tokens(tools, name, counter) == reported


def test_what_is_nested_counts_too() -> None:
    inner = {"type": "object", "properties": {"line": {"type": "integer", "description": "Where it is."}}}
    flat = tools_tokens(of({"type": "object", "properties": {"at": {"type": "object"}}}), "o200k_base", count)
    cost = 3 + 3 + count("line:integer:Where it is")
    for schema in (inner, {"type": "object", "items": inner}, {"type": "object", "anyOf": [inner]}):
        nested = of({"type": "object", "properties": {"at": schema}})
        assert tools_tokens(nested, "o200k_base", count) == flat + cost
    with_definitions = of({"type": "object", "properties": {"at": {"type": "object"}}, "$defs": {"Inner": inner}})
    assert tools_tokens(with_definitions, "o200k_base", count) == flat + cost


def test_a_schema_without_end_ends() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100):
        deep = {"type": "object", "properties": {"deeper": deep}}
    assert 0 < tools_tokens(of(deep), "o200k_base", count) < 1500


@pytest.mark.parametrize("odd", [b"{", b"7", b"[1, {}]", b'[{"function": {"parameters": {"properties": {"a": 1}}}}]'])
def test_what_is_no_list_of_tools_raises_nothing(odd: bytes) -> None:
    assert tools_tokens(odd, "o200k_base", count) >= 0


def test_no_tools_cost_nothing() -> None:
    assert tools_tokens(b"[]", "o200k_base", count) == 0
