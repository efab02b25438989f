"""What Anthropic refuses, the double refuses, in the same words, to the package `anthropic`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from anthropic import Anthropic, APIStatusError

from agent_testing import Call, FakeAnthropic, Say
from agent_testing.anthropic.signatures import sign

OLD, FREE = "claude-sonnet-4-5", "claude-haiku-5-5"
TOOL = {"name": "read", "input_schema": {"type": "object"}}
MARK = {"cache_control": {"type": "ephemeral"}}


def user(content: Any = "hello") -> dict[str, Any]:
    return {"role": "user", "content": content}


def assistant(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


def use(call: str = "toolu_1", **more: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call, "name": "read", "input": {}, **more}


def result(call: str = "toolu_1") -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call, "content": "done"}


def tools(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"messages": list(messages), "tools": [TOOL], **more}


def answered_by(schema: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"output_config": {"format": {"type": "json_schema", "schema": {**(schema or {}), **more}}}}


FORGED = {"type": "thinking", "thinking": "hm", "signature": "Zm9yZ2Vk"}
SIGNED = {"type": "thinking", "thinking": "hm", "signature": sign("hm")}
BUDGET = {"type": "enabled", "budget_tokens": 1024}
REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("max_tokens: Field required", {"max_tokens": None}),
    ("surprise: Extra inputs are not permitted", {"surprise": 1}),
    ("messages: at least one message is required", {"messages": []}),
    ('first message must use the "user" role', {"messages": [assistant(text("hi")), user()]}),
    ("messages.0.role: Input should be 'user' or 'assistant'", {"messages": [{"role": "tool", "content": "x"}]}),
    ("messages.0.content.0: Input tag 'audio'", {"messages": [user([{"type": "audio"}])]}),
    ("text content blocks must be non-empty", {"messages": [user("")]}),
    ("must contain non-whitespace text", {"messages": [user(" \n")]}),
    ("messages.1: all messages must have non-empty", {"messages": [user(), assistant(), user()]}),
    ("cannot end with trailing whitespace", {"model": OLD, "messages": [user(), assistant(text("so "))]}),
    ("does not support assistant message prefill", {"messages": [user(), assistant(text("so"))]}),
    ("messages.1: `tool_use` ids were found without", tools(user(), assistant(use()), user("no"))),
    ("messages.1: `tool_use` ids were found without", tools(user(), assistant(use()), user([text("no"), result()]))),
    ("messages.1: `tool_use` ids were found without", tools(user(), assistant(use()))),
    ("messages.0.content.0: unexpected `tool_use_id`", tools(user([result()]))),
    ("messages.2.content.1: unexpected", tools(user(), assistant(use()), user([result(), result("other")]))),
    ("each tool_use must have a single result", tools(user(), assistant(use()), user([result(), result()]))),
    (
        "`tool_use` ids must be unique",
        tools(user(), assistant(use()), user([result()]), assistant(use()), user([result()])),
    ),
    ("blocks can only be in `assistant` messages", tools(user([use()]))),
    ("messages.1.content.0.tool_use.id: String should match", tools(user(), assistant(use("a.b")), user([result()]))),
    ("tool_use.input: Input should be a valid dict", tools(user(), assistant(use(input="x")), user([result()]))),
    ("must define tools", {"messages": [user(), assistant(use()), user([result()])]}),
    ("tools: Tool names must be unique", {"tools": [TOOL, TOOL]}),
    ("tools.0.name: String should match pattern", {"tools": [{**TOOL, "name": "a.b"}]}),
    ("tools.0.input_schema.type: Field required", {"tools": [{"name": "a", "input_schema": {}}]}),
    ("oneOf, allOf, or anyOf", {"tools": [{"name": "a", "input_schema": {"type": "object", "anyOf": []}}]}),
    (
        "Property keys should match",
        {"tools": [{"name": "a", "input_schema": {"type": "object", "properties": {"$top": {}}}}]},
    ),
    ("only be specified while providing tools", {"tool_choice": {"type": "auto"}}),
    ("Tool 'other' not found", {"tools": [TOOL], "tool_choice": {"type": "tool", "name": "other"}}),
    (
        "when tool_choice forces",
        {"model": FREE, "tools": [TOOL], "tool_choice": {"type": "any"}, "thinking": {"type": "adaptive"}},
    ),
    ('type "tool" and "any" are not supported', {"tools": [TOOL], "tool_choice": {"type": "any"}}),
    ('"thinking.type.disabled" is not supported', {"thinking": {"type": "disabled"}}),
    ("Invalid `signature` in `thinking` block", {"messages": [user(), assistant(FORGED, text("a")), user()]}),
    (
        "messages.1.content.0.thinking.cache_control: Extra",
        {"messages": [user(), assistant({**FORGED, **MARK}), user()]},
    ),
    ("messages.1: The final block in an assistant", {"messages": [user(), assistant(text("a"), SIGNED), user()]}),
    ("maximum of 4 blocks with cache_control", {"messages": [user([text("a", **MARK)] * 5)]}),
    ("cache_control cannot be set for empty", {"messages": [user([text("", **MARK)])]}),
    ("temperature: Extra inputs are not permitted", {"temperature": 0.5}),
    ("`temperature` and `top_p` cannot both", {"old": True, "temperature": 0.5, "top_p": 0.5}),
    (
        "`temperature` may only be set to 1",
        {"old": True, "temperature": 0.5, "thinking": BUDGET, "model": OLD, "max_tokens": 2000},
    ),
    ('"thinking.type.enabled" is not supported', {"thinking": BUDGET, "max_tokens": 2000}),
    ("adaptive thinking is not supported", {"model": OLD, "thinking": {"type": "adaptive"}}),
    ("greater than or equal to 1024", {"model": OLD, "thinking": {"type": "enabled", "budget_tokens": 9}}),
    ("`max_tokens` must be greater than", {"model": OLD, "thinking": BUDGET}),
    ("max_tokens: 128001 > 128000", {"max_tokens": 128001}),
    (
        "messages.1.content.0.type: Expected `thinking`",
        tools(user(), assistant(use()), user([result()]), model=OLD, max_tokens=2000, thinking=BUDGET),
    ),
    ("'additionalProperties' must be explicitly set", answered_by({"type": "object"})),
    ("For 'integer' type, properties minimum are not", answered_by(anyOf=[{"type": "integer", "minimum": 1}])),
    ("stop_sequences: each stop sequence", {"stop_sequences": [" "]}),
    ("model: gpt-4o", {"model": "gpt-4o"}),
]


@pytest.fixture(scope="module")
def api() -> Iterator[FakeAnthropic]:
    with FakeAnthropic([]) as api:
        yield api


@pytest.fixture(scope="module")
def client(api: FakeAnthropic) -> Iterator[Anthropic]:
    with Anthropic(base_url=api.url, api_key="any", max_retries=0) as client:
        yield client


def send(client: Anthropic, *, old: bool = False, **fields: Any) -> Any:
    given = {"model": "claude-sonnet-5-5", "max_tokens": 100, "messages": [user()], **fields}
    body = {name: value for name, value in given.items() if value is not None}
    headers = {"anthropic-version": "2023-06-01"} if old else {}
    return client.post("/v1/messages", cast_to=object, body=body, options={"headers": headers})


@pytest.mark.parametrize(("words", "fields"), REFUSED, ids=[words for words, _ in REFUSED])
def test_refused(client: Anthropic, words: str, fields: dict[str, Any]) -> None:
    with pytest.raises(APIStatusError) as caught:
        send(client, **fields)
    assert words in (caught.value.api_message or "")
    assert caught.value.status_code == (404 if words.startswith("model:") else 400)


def test_what_is_right_is_answered(api: FakeAnthropic, client: Anthropic) -> None:
    right: list[dict[str, Any]] = [
        {},
        {"messages": [user(), user("more")], "thinking": {"type": "disabled"}, "model": FREE},
        {"old": True, "temperature": 0.5, "model": OLD},
        tools(user(), assistant(text("a"), use("a"), use("b")), user([result("b"), result("a"), text("and")])),
        {"system": [text("be kind", **MARK)], "messages": [user([text("a", **MARK)])]},
    ]
    api.script.append(*[Say("yes")] * len(right))
    for fields in right:
        assert send(client, **fields)["content"] == [{"type": "text", "text": "yes"}]


def test_thinking_comes_back_as_it_was_given(api: FakeAnthropic, client: Anthropic) -> None:
    api.script.append(
        Call("read", {}), Say(reasoning="Read it.", calls=(Call("read", {}), Call("read", {}))), Say("ok")
    )
    send(client, tools=[TOOL])
    content: list[dict[str, Any]] = send(client, tools=[TOOL])["content"]
    results = user([result(content[1]["id"]), result(content[2]["id"])])

    def follow(*blocks: dict[str, Any]) -> Any:
        return send(client, **tools(user(), assistant(*blocks), results))

    for blocks, words in [
        (content[1:], "Expected `thinking`"),
        ([{**content[0], "thinking": "Other."}, *content[1:]], "Invalid `signature`"),
        ([content[0], content[0], *content[1:]], "cannot be modified"),
    ]:
        with pytest.raises(APIStatusError, match=words):
            follow(*blocks)
    assert follow(*content)["stop_reason"] == "end_turn"
    api.script.append(Say("ok"))
    later = tools(user(), assistant(*content[1:]), results, assistant(text("done")), user("next"))
    assert send(client, **later)["stop_reason"] == "end_turn", "thinking of a turn that is over may be left out"
