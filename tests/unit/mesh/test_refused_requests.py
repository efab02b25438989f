"""Requests that a provider refuses, and how they are sent again, over a real socket."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from agent_runtime.errors import ModelError
from agent_runtime.ports import ModelRequest, Retrying, TextPiece
from agent_testing import Raw, Say, ScriptedProvider

from .test_model import client_of, collect, events

CALLED = [
    b'{"role":"user","content":"go"}',
    b'{"role":"assistant","content":null,"tool_calls":[{"id":"call_0","type":"function","function":'
    b'{"name":"read","arguments":"{}"}}]}',
    b'{"role":"tool","tool_call_id":"call_0","content":"text"}',
]


def refusal(message: str, status: int = 400, **more: Any) -> Raw:
    body = json.dumps({"error": {"message": message, "code": status} | more})
    return Raw((body,), status, {"content-type": "application/json"})


async def test_what_a_gateway_passes_on_as_a_text_teaches() -> None:
    raw = "Tool call id was call_0 but must be a-z, A-Z, 0-9, with a length of 9."
    refused = refusal("Provider returned error", metadata={"raw": raw, "provider_name": "X"})
    with ScriptedProvider([refused, Say("ok")]) as provider:
        async with client_of(provider.url) as (client, _):
            assert (await collect(client, ModelRequest("m", CALLED)))[0] == TextPiece("ok")
        ids = [asked.json["messages"][2]["tool_call_id"] for asked in provider.completions]
    assert ids[0] == "call_0"
    assert len(ids[1]) == 9


@pytest.mark.parametrize("code", ["\u00b2", "9" * 5000, 10**400])
async def test_an_error_within_an_answer_may_have_any_code(code: object) -> None:
    event = json.dumps({"error": {"message": "engine dead", "code": code, "retry_after": code}})
    with pytest.raises(ModelError, match="engine dead"):
        await events(Raw((f"data: {event}\n\n",)))


@pytest.mark.parametrize(
    ("status", "message", "code"),
    [
        (503, "Deployment is currently scaled to zero and is scaling up.", "DEPLOYMENT_SCALING_UP"),
        (503, "Service unavailable", "model_not_ready"),
        (400, "Model unloaded.", None),
    ],
)
async def test_a_provider_that_starts_for_a_model_is_waited_for(status: int, message: str, code: str | None) -> None:
    refused = refusal(message, status, **({"code": code} if code else {}))
    with ScriptedProvider([refused, Say("ok")]) as provider:
        async with client_of(provider.url, attempts=1) as (client, _):
            waiting, *answer = await collect(client, ModelRequest("m", CALLED))
    assert isinstance(waiting, Retrying)
    assert answer[0] == TextPiece("ok")


TOOLS = b'[{"type":"function","function":{"name":"read"}}]'
NO_CHOICE = (
    "No endpoints found that support the provided 'tool_choice' value. To learn more about provider routing, visit:"
    " https://openrouter.ai/docs/provider-routing"
)


@pytest.mark.parametrize(
    ("taken", "sent"),
    [((None, "auto"), ["none", "auto", "auto", "auto"]), ((None,), ["none", "auto", None, None, None])],
)
async def test_a_choice_of_tools_that_no_provider_takes_is_not_sent(taken: tuple[Any], sent: list[Any]) -> None:
    with ScriptedProvider(otherwise=Say("ok")) as provider:
        provider.script.refuse(lambda body: body.get("tool_choice") not in taken, refusal(NO_CHOICE, 404))
        async with client_of(provider.url) as (client, _):
            for choice in ("none", "none", "auto"):
                assert (await collect(client, ModelRequest("m", CALLED, TOOLS, choice)))[0] == TextPiece("ok")
        assert [asked.json.get("tool_choice") for asked in provider.completions] == sent


ODD = ("$filter", "fields[users]", "long" * 20)


async def test_an_argument_whose_name_is_refused_is_described_instead() -> None:
    properties = {name: {"type": "string"} for name in ("path", *ODD)}
    parameters = {"type": "object", "properties": properties, "required": ["path", "$filter"]}
    about = {"name": "list", "description": "Lists.", "parameters": parameters}
    tools = json.dumps([{"type": "function", "function": about}]).encode()
    with ScriptedProvider(otherwise=Say("ok")) as provider:
        provider.script.refuse(
            lambda body: any(len(name) > 64 or not re.fullmatch(r"[\w.-]+", name) for name in arguments(body)),
            refusal(
                "tools.0.custom.input_schema.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'"
            ),
        )
        async with client_of(provider.url) as (client, _):
            for _ in range(2):
                assert (await collect(client, ModelRequest("m", CALLED, tools)))[0] == TextPiece("ok")
        first, *later = [asked.json for asked in provider.completions]
    assert list(arguments(first)) == ["path", *ODD]
    assert later[0]["tools"] == later[1]["tools"]
    (sent,) = [tool["function"] for tool in later[0]["tools"]]
    assert sent["parameters"] == {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    said, further = sent["description"].split("\n\nFurther arguments: ")
    assert (said, json.loads(further)) == ("Lists.", {name: {"type": "string"} for name in ODD})


@pytest.mark.parametrize("parameters", [None, {"type": "object", "properties": {}}, {"type": "object"}])
async def test_a_tool_without_arguments_has_no_parameters_where_an_empty_object_is_refused(parameters: Any) -> None:
    about = {"name": "list"} | ({"parameters": parameters} if parameters else {})
    tools = json.dumps([{"type": "function", "function": about}]).encode()
    with ScriptedProvider(otherwise=Say("ok")) as provider:
        provider.script.refuse(
            lambda body: not body["tools"][0]["function"].get("parameters", {"properties": 1}).get("properties"),
            refusal(
                "* GenerateContentRequest.tools[0].function_declarations[0].parameters.properties: should be non-empty"
                " for OBJECT type"
            ),
        )
        async with client_of(provider.url) as (client, _):
            assert (await collect(client, ModelRequest("gemini-2.5-flash", CALLED, tools)))[0] == TextPiece("ok")
        assert provider.completions[-1].json["tools"][0]["function"] == {"name": "list"}


def arguments(body: dict[str, Any]) -> dict[str, Any]:
    return body["tools"][0]["function"]["parameters"]["properties"]


async def test_ids_of_calls_that_come_again_in_each_turn_are_numbered() -> None:
    with ScriptedProvider(otherwise=Say("ok")) as provider:
        provider.script.refuse(
            lambda body: len(set(ids := result_ids(body))) < len(ids),
            refusal("messages.1.content.1: `tool_use` ids must be unique"),
        )
        async with client_of(provider.url) as (client, _):
            for turns in (1, 2, 3):
                assert (await collect(client, ModelRequest("m", CALLED * turns)))[0] == TextPiece("ok")
        sent = [result_ids(asked.json) for asked in provider.completions]
    assert sent == [["call_0"], ["call_0", "call_0_2"], ["call_0", "call_0_2", "call_0_3"]]


def result_ids(body: dict[str, Any]) -> list[str]:
    return [message["tool_call_id"] for message in body["messages"] if message["role"] == "tool"]
