"""The local model as a provider, with a scripted server in the place of llama.cpp's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic_core import to_json

from agent_host.errors import ProviderFailed
from agent_host.proxy.providers import ProviderCall
from agent_host.proxy.providers.local import LocalProvider
from agent_host.proxy.providers.local.engine import Engine, missing_parts, start_engine
from agent_host.proxy.providers.local.provider import NOTICE
from agent_testing import Fail, ManualClock, Say, ScriptedProvider

TOOLS = [{"type": "function", "function": {"name": name}} for name in ("bash", "read", "glob")]
CALL = '{"name": "read", "arguments": {"path": "a.txt"}}'


@pytest.fixture
def server() -> Iterator[ScriptedProvider]:
    with ScriptedProvider() as provider:
        yield provider


async def ask(server: ScriptedProvider, payload: dict[str, Any], *, streamed: bool = False) -> tuple[int, bytes]:
    provider = LocalProvider(ManualClock(), 5.0, lambda: Engine(server.url, "key", object()))
    try:
        async with provider.call(ProviderCall("chat", to_json({"model": "SmolLM2", **payload}), streamed)) as answer:
            return answer.status, b"".join([data async for data in answer.body])
    finally:
        await provider.close()


def said(text: str, **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "system", "content": "long " * 9_000}, {"role": "user", "content": text}], **more}


async def test_words_carry_a_notice(server: ScriptedProvider) -> None:
    server.script.replace([Say("Paris."), Say("Paris it is.")])
    _, whole = await ask(server, said("What is the capital of France?", tools=TOOLS))
    assert json.loads(whole)["choices"][0]["message"]["content"] == f"{NOTICE}Paris."
    _, stream = await ask(server, said("And of Spain?"), streamed=True)
    events = [json.loads(line[6:]) for line in stream.decode().split("\n\n") if line.startswith("data: {")]
    text = "".join(choice["delta"].get("content", "") for event in events for choice in event["choices"])
    assert text == f"{NOTICE}Paris it is."
    assert events[-1]["usage"]["completion_tokens"] == 3
    asked = server.completions[0].json
    assert "tools" not in asked
    assert len(json.dumps(asked)) < 1_000, "the agent's own prompt is far too long for it"
    assert server.completions[0].headers["authorization"] == "Bearer key"


async def test_a_message_about_files_is_held_to_the_schema_of_a_call(server: ScriptedProvider) -> None:
    server.script.replace([Say(CALL), Say(CALL)])
    status, whole = await ask(server, said("What does a.txt say?", tools=TOOLS))
    assert status == 200
    reply = json.loads(whole)
    (call,) = reply["choices"][0]["message"]["tool_calls"]
    assert (call["function"]["name"], json.loads(call["function"]["arguments"])) == ("read", {"path": "a.txt"})
    assert reply["usage"]["completion_tokens"] > 0
    asked = server.completions[0].json
    shapes = asked["response_format"]["json_schema"]["schema"]["anyOf"]
    (shape,) = shapes
    assert shape["properties"]["name"] == {"const": "read"}
    assert shape["properties"]["arguments"]["properties"] == {"path": {"enum": ["a.txt"]}}
    assert asked["max_tokens"] > 0
    _, stream = await ask(server, said("What does a.txt say?", tools=TOOLS), streamed=True)
    assert b'"tool_calls"' in stream
    assert stream.endswith(b"data: [DONE]\n\n")


async def test_a_message_that_only_speaks_of_files_may_list_them(server: ScriptedProvider) -> None:
    server.script.replace([Say('{"name": "glob", "arguments": {"pattern": "**/*"}}')])
    await ask(server, said("Which files are there, beside a.txt and in/b.md?", tools=TOOLS))
    shapes = server.completions[0].json["response_format"]["json_schema"]["schema"]["anyOf"]
    assert [shape["properties"]["name"]["const"] for shape in shapes] == ["read", "glob"]
    assert shapes[0]["properties"]["arguments"]["properties"]["path"]["enum"] == ["a.txt", "in/b.md"]


async def test_after_a_result_it_answers_in_words(server: ScriptedProvider) -> None:
    server.script.replace([Say("It says hello.")])
    payload = said("What does a.txt say?", tools=TOOLS, max_tokens=10_000)
    call = {"id": "c", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    payload["messages"] += [{"role": "assistant", "tool_calls": [call]}, {"role": "tool", "content": "hello " * 9_000}]
    _, whole = await ask(server, payload)
    assert json.loads(whole)["choices"][0]["message"]["content"] == f"{NOTICE}It says hello."
    asked = server.completions[0].json
    assert "response_format" not in asked
    assert "A tool found this:\nhello" in asked["messages"][-1]["content"]
    assert len(asked["messages"][-1]["content"]) < 5_000
    assert asked["max_tokens"] == 256


@pytest.mark.parametrize(
    "more",
    [{"tools": TOOLS, "tool_choice": "none"}, {"tools": [{"type": "function", "function": {"name": "bash"}}]}, {}],
)
async def test_without_tools_that_only_look_it_answers_in_words(server: ScriptedProvider, more: dict[str, Any]) -> None:
    server.script.replace([Say("No idea.")])
    _, whole = await ask(server, said("List the files.", max_tokens=7, **more))
    assert json.loads(whole)["choices"][0]["message"]["content"].startswith(NOTICE)
    assert server.completions[0].json["max_tokens"] == 7


async def test_a_call_that_was_cut_is_a_failure(server: ScriptedProvider) -> None:
    server.script.replace([Say('{"name": "read", "argu')])
    with pytest.raises(ProviderFailed, match="did not finish its tool call"):
        await ask(server, said("What does a.txt say?", tools=TOOLS))


@pytest.mark.parametrize("text", ["What does a.txt say?", "Hello"])
async def test_an_error_of_its_server_is_passed_on(server: ScriptedProvider, text: str) -> None:
    server.script.replace([Fail(500, "peg-native")])
    status, body = await ask(server, said(text, tools=TOOLS))
    assert status == 500
    assert json.loads(body)["error"]["message"] == "peg-native"


async def test_messages_without_a_user_are_borne(server: ScriptedProvider) -> None:
    server.script.replace([Say("Fine.")])
    status, _ = await ask(server, {"messages": [{"role": "system", "content": "x"}], "tools": TOOLS})
    assert status == 200


async def test_a_provider_that_never_spoke_closes() -> None:
    await LocalProvider(ManualClock(), 5.0, start_engine).close()


@pytest.mark.skipif(missing_parts() is None, reason="the local model is installed")
def test_not_installed_is_said_with_the_command_that_helps() -> None:
    with pytest.raises(ProviderFailed, match=r"requirements/local-model\.lock"):
        start_engine()
