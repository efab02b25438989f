"""What providers refuse of a history, strict doubles refuse: what is missing, changed, foreign or out of order."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from agent_testing import Call, Say, StrictProvider
from agent_testing.strict import DIALECTS, FOREIGN_SIGNATURE

Message = dict[str, Any]
TOOLS = [{"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}]
USER = {"role": "user", "content": "go"}
GIVES = [name for name, dialect in DIALECTS.items() if dialect.reasoning or dialect.signed_calls]
WANTS = [name for name, dialect in DIALECTS.items() if dialect.wants]


@pytest.fixture
def double(request: pytest.FixtureRequest) -> Iterator[StrictProvider]:
    step = Say("I look.", reasoning="Hm, what is it?", calls=(Call("read", {"path": "a"}), Call("read", {})))
    with StrictProvider(request.param, [step], otherwise=Say("done", reasoning="So.")) as double:
        yield double


def ask(double: StrictProvider, *messages: Message, **fields: Any) -> httpx.Response:
    body = {"model": "m", "messages": list(messages), "tools": TOOLS, **fields}
    return httpx.post(f"{double.url}/chat/completions", json=body, timeout=60, trust_env=False)


def given(double: StrictProvider) -> tuple[Message, list[Message]]:
    message = ask(double, USER).json()["choices"][0]["message"]
    return message, [{"role": "tool", "tool_call_id": call["id"], "content": "x"} for call in message["tool_calls"]]


def without(message: Message) -> Message:
    """The message as another model is sent it."""
    calls = [{name: call[name] for name in ("id", "type", "function")} for call in message["tool_calls"]]
    return {"role": "assistant", "content": "I look.", "tool_calls": calls}


def changed(message: Message) -> Message:
    text = (
        json.dumps(message).replace("Hm, what", "Hm, why").replace('"thought_signature": "', '"thought_signature": "x')
    )
    return json.loads(text)


@pytest.mark.parametrize("double", DIALECTS, indirect=True)
def test_what_it_gave_is_taken(double: StrictProvider) -> None:
    message, results = given(double)
    assert ask(double, USER, message, *results).json()["choices"][0]["message"]["content"]
    assert double.refusals == ()


@pytest.mark.parametrize("double", WANTS, indirect=True)
@pytest.mark.parametrize("spoil", [without, changed])
def test_what_is_missing_or_changed_is_refused(double: StrictProvider, spoil: Callable[[Message], Message]) -> None:
    message, results = given(double)
    reply = ask(double, USER, spoil(copy.deepcopy(message)), *results)
    assert reply.status_code == 400, reply.text
    assert len(double.refusals) == 1


@pytest.mark.parametrize("double", ["openai"], indirect=True)
@pytest.mark.parametrize("maker", GIVES)
def test_what_another_gave_is_refused(double: StrictProvider, maker: str) -> None:
    step = Say(reasoning="Hm, what is it?", calls=(Call("read", {}, id="call_1"),))
    with StrictProvider(maker, [step]) as other:
        message, results = given(other)
    assert ask(double, USER, message, *results).status_code == 400
    assert "Unknown parameter" in double.refusals[0]


def tool(**schema: Any) -> Message:
    return {"type": "function", "function": {"name": "a", "parameters": {"type": "object", **schema}}}


@pytest.mark.parametrize(
    ("double", "fields", "words"),
    [
        ("openai", {"max_tokens": 5}, "Use 'max_completion_tokens' instead"),
        ("openai", {"temperature": 0.5}, "'temperature' does not support"),
        ("openai", {"tools": [{"type": "function", "function": {"name": "a", "description": "x" * 1025}}]}, "too long"),
        ("deepseek", {"max_completion_tokens": 5}, "Use 'max_tokens' instead"),
        ("mistral", {"stream_options": {}}, "Extra inputs"),
        ("gemini", {"tools": [{"type": "function", "function": {"name": "1a"}}]}, "no valid name"),
        ("openai", {"tools": [tool(anyOf=[])]}, "at the top level"),
        ("gemini", {"tools": [tool(properties={"a": {"const": 1}})]}, 'Unknown name "const" at \'tools[0]'),
        ("gemini", {"tools": [tool(additionalProperties=False)]}, 'Unknown name "additionalProperties"'),
    ],
    indirect=["double"],
)
def test_parameters(double: StrictProvider, fields: dict[str, Any], words: str) -> None:
    assert ask(double, USER, **fields).status_code in (400, 422)
    assert words in double.refusals[0]


def told(call_id: str = "abcdefghi", **more: Any) -> Message:
    call = {"id": call_id, "type": "function", "function": {"name": "read", "arguments": "{}"}}
    return {"role": "assistant", "content": None, "tool_calls": [call], **more}


RESULT = {"role": "tool", "tool_call_id": "abcdefghi", "content": "x"}


@pytest.mark.parametrize(
    ("double", "messages", "words"),
    [
        ("mistral", [USER, told(), RESULT, USER], "Unexpected role 'user' after role 'tool'"),
        ("mistral", [USER, told("call_1")], "length of 9"),
        ("openai", [USER, told("c" * 41)], "string too long"),
        ("openai", [USER, told(), USER], "has no result"),
        ("openai", [USER, told()], "has no result"),
        ("openai", [USER, RESULT], "has no call"),
        ("openai", [USER, {"role": "assistant", "content": " \n"}], "must have content"),
        ("openai", [], "at least one message"),
        ("deepseek", [USER, told(), RESULT], "reasoning_content"),
        ("gemini", [USER, told(), RESULT], "missing a thought_signature"),
        ("kimi", [USER, {"role": "assistant", "content": "hi"}, USER], "reasoning_content is missing"),
    ],
    indirect=["double"],
)
def test_the_order_of_messages_and_their_ids(double: StrictProvider, messages: list[Message], words: str) -> None:
    assert ask(double, *messages).status_code == 400
    assert words in double.refusals[0]


@pytest.mark.parametrize("double", ["gemini"], indirect=True)
def test_a_call_of_another_model_wants_a_signature_in_its_turn_only(double: StrictProvider) -> None:
    signed = told()
    signed["tool_calls"][0]["extra_content"] = FOREIGN_SIGNATURE
    for messages in ((USER, signed, RESULT), (USER, told(), RESULT, USER), (USER, signed, RESULT, USER)):
        assert ask(double, *messages).status_code == 200, double.refusals
