"""What OpenAI's Responses API refuses, the double refuses, in the same words, to the package `openai`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from openai import APIStatusError, OpenAI

from agent_testing import Call, FakeResponses, Items, Say

TOOL = {"type": "function", "name": "read", "parameters": {"type": "object"}, "strict": False}
USER = {"role": "user", "content": "hello"}


def call(call_id: str = "call_1", **more: Any) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": "read", "arguments": "{}", **more}


def output(call_id: str = "call_1") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": "done"}


FORGED = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAAZm9yZ2Vk"}
REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("Unknown parameter: 'surprise'", {"surprise": 1}),
    ("'messages'. In the Responses API, this parameter has moved to 'input'", {"messages": []}),
    ("has moved to 'max_output_tokens'", {"max_tokens": 100}),
    ("has moved to 'reasoning.effort'", {"reasoning_effort": "low"}),
    ("Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16", {"max_output_tokens": 5}),
    ("The requested model 'large-2' does not exist", {"model": "large-2"}),
    ("'temperature' is not supported with this model", {"temperature": 0.5}),
    ("Encrypted content is not supported", {"model": "gpt-4.1", "include": ["reasoning.encrypted_content"]}),
    ("'reasoning.effort' is not supported", {"model": "gpt-4.1", "reasoning": {"effort": "low"}}),
    ("Missing required parameter: 'tools[0].name'", {"tools": [{"type": "function", "function": {"name": "read"}}]}),
    ("""got 'type: "None"'""", {"tools": [{**TOOL, "parameters": {}}]}),
    ("Invalid 'tools[0].name': string does not match pattern", {"tools": [{**TOOL, "name": "a.b"}]}),
    ("when no tools are provided", {"tool_choice": "required"}),
    ("'other' not found in 'tools'", {"tools": [TOOL], "tool_choice": {"type": "function", "name": "other"}}),
    ("Invalid value: 'audio'", {"input": [{"type": "audio"}]}),
    ("Missing required parameter: 'input[0].content'", {"input": [{"role": "user"}]}),
    ('One of "input"', {"input": []}),
    ("No tool output found for function call call_1.", {"input": [USER, call()]}),
    ("No tool call found for function call output with call_id call_2.", {"input": [USER, call(), output("call_2")]}),
    ("No tool call found", {"input": [USER, output(), call()]}),
    ("Invalid 'input[1].id': 'call_1'. Expected an ID that begins with 'fc'.", {"input": [USER, call(id="call_1")]}),
    ("Invalid 'input[1].call_id': string too long", {"input": [USER, call("c" * 65)]}),
    ("Duplicate item found with id fc_1", {"input": [call(id="fc_1"), output(), call("b", id="fc_1"), output("b")]}),
    ("The encrypted content for item rs_1 could not be verified", {"input": [USER, FORGED, call(), output()]}),
    ("Item with id 'rs_1' not found", {"input": [USER, {**FORGED, "encrypted_content": None}, call(), output()]}),
]


@pytest.fixture(scope="module")
def api() -> Iterator[FakeResponses]:
    with FakeResponses([], api_key="sk") as api:
        yield api


@pytest.fixture(scope="module")
def client(api: FakeResponses) -> Iterator[OpenAI]:
    with OpenAI(base_url=api.url, api_key="sk", max_retries=0) as client:
        yield client


def send(client: OpenAI, **fields: Any) -> Any:
    body = {"model": "gpt-5.4", "input": [USER], "store": False, **fields}
    return client.post("/responses", cast_to=object, body=body)


@pytest.mark.parametrize(("words", "fields"), REFUSED)
def test_it_is_refused(client: OpenAI, words: str, fields: dict[str, Any]) -> None:
    with pytest.raises(APIStatusError) as refused:
        send(client, **fields)
    assert words in refused.value.message


def test_a_wrong_key_is_refused(api: FakeResponses) -> None:
    client = OpenAI(base_url=api.url, api_key="other", max_retries=0)
    with client, pytest.raises(APIStatusError, match="Incorrect API key"):
        send(client)


def test_reasoning_has_to_stay_in_its_place_as_it_was(client: OpenAI, api: FakeResponses) -> None:
    api.script.replace([Say(reasoning="I must look.", calls=(Call("read", {}),))], otherwise=Say("ok"))
    ask = {"tools": [TOOL], "include": ["reasoning.encrypted_content"]}
    thought, made = send(client, **ask)["output"]
    result = output(str(made["call_id"]))
    plain = {name: value for name, value in made.items() if name != "id"}
    changed = {**thought, "summary": []}
    for items, words in (
        ([made, result], "without its required 'reasoning' item"),
        ([thought, USER, made, result], "without its required following item"),
        ([made, result, thought], "without its required 'reasoning' item"),
        ([changed, made, result], "cannot be modified"),
        ([thought, {**made, "arguments": '{"a":1}'}, result], "cannot be modified"),
    ):
        with pytest.raises(APIStatusError) as refused:
            send(client, **ask, input=[USER, *items])
        assert words in refused.value.message
    for items in ([thought, made, result], [plain, result]):
        assert send(client, **ask, input=[USER, *items])["status"] == "completed"


def test_the_package_reads_its_streams(client: OpenAI, api: FakeResponses) -> None:
    refusal = {"type": "message", "content": [{"type": "refusal", "refusal": "No, never."}]}
    step = Items(output=({"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm hm."}]}, refusal))
    api.script.replace([step, Say("Hello there.", calls=(Call("read", {"path": "a"}),), finish_reason="length")])
    with client.responses.stream(model="gpt-5.4", input="hello", store=False) as stream:
        events = [event.type for event in stream]
        final = stream.get_final_response()
    assert "response.refusal.delta" in events
    assert [item.type for item in final.output] == ["reasoning", "message"]
    with client.responses.stream(model="gpt-4.1", input="hello", tools=[TOOL], store=False) as stream:  # pyright: ignore[reportArgumentType]
        *_, last = stream
    assert last.type == "response.incomplete"
    assert last.response.output_text == "Hello there."


def test_a_prompt_that_begins_as_one_before_is_cached(client: OpenAI, api: FakeResponses) -> None:
    api.script.replace(otherwise=Say("ok"))
    rules = "rules " * 2000
    first, second = (
        client.responses.create(model="gpt-4.1", instructions=rules, input=words).usage for words in ("a", "b")
    )
    assert first is not None
    assert second is not None
    assert first.input_tokens_details.cached_tokens == 0
    assert 2000 < second.input_tokens_details.cached_tokens < second.input_tokens
