"""The `openai` client, as anybody would use it, with an agent's token against the host."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest

from agent_testing import Call, Fail, Say, ScriptedProvider

from .live import Host

if TYPE_CHECKING:
    from openai import AsyncOpenAI


@pytest.fixture
async def client(host: Host, token: str) -> AsyncIterator[AsyncOpenAI]:
    from openai import AsyncOpenAI

    async with AsyncOpenAI(base_url=f"{host.url}/v1", api_key=token, max_retries=0) as client:
        yield client


async def test_a_completion(client: AsyncOpenAI, provider: ScriptedProvider) -> None:
    provider.script.replace([Say("Hello there.")])
    reply = await client.chat.completions.create(model="default", messages=[{"role": "user", "content": "hi"}])
    assert reply.choices[0].message.content == "Hello there."
    assert reply.usage is not None
    assert reply.usage.model_extra is not None
    assert reply.usage.model_extra["cost_usd"] > 0


async def test_a_stream_with_a_tool_call(client: AsyncOpenAI, provider: ScriptedProvider) -> None:
    provider.script.replace([Call("read", {"path": "a.txt"}, text="I look.")])
    stream = await client.chat.completions.create(
        model="default",
        messages=[{"role": "user", "content": "hi"}],
        tools=[{"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}],
        stream=True,
    )
    text, arguments, finish = "", "", None
    async for chunk in stream:
        choice = chunk.choices[0]  # every chunk has one: usage was not asked for
        text += choice.delta.content or ""
        for call in choice.delta.tool_calls or []:
            assert call.function is not None
            arguments += call.function.arguments or ""
        finish = choice.finish_reason or finish
    assert (text, arguments, finish) == ("I look.", '{"path": "a.txt"}', "tool_calls")


async def test_a_demo_answer_in_a_stream(client: AsyncOpenAI) -> None:
    stream = await client.chat.completions.create(
        model="demo",
        messages=[{"role": "user", "content": "hi"}],
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = [chunk async for chunk in stream]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks[:-1]).startswith("[demo model]")
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens > 10


async def test_models(client: AsyncOpenAI) -> None:
    models = [model async for model in client.models.list()]
    assert models[0].id == "default"
    assert models[0].owned_by == "upstream"
    assert (await client.models.retrieve("demo")).id == "demo"


async def test_embeddings(client: AsyncOpenAI) -> None:
    reply = await client.embeddings.create(model="embedding", input=["a cat", "a dog"])
    assert len(reply.data[1].embedding) == 64
    demo = await client.embeddings.create(model="embedding", input="a cat", encoding_format="float")
    assert sum(value * value for value in demo.data[0].embedding) == pytest.approx(1)


async def test_errors_have_the_clients_own_types(client: AsyncOpenAI, provider: ScriptedProvider, host: Host) -> None:
    from openai import AsyncOpenAI, AuthenticationError, NotFoundError, RateLimitError

    with pytest.raises(NotFoundError) as missing:
        await client.chat.completions.create(model="gpt-9", messages=[{"role": "user", "content": "hi"}])
    assert missing.value.code == "model_not_found"
    provider.script.replace([Fail(429, "slow down", retry_after=3)])
    with pytest.raises(RateLimitError) as limited:
        await client.chat.completions.create(model="default", messages=[{"role": "user", "content": "hi"}])
    assert limited.value.response.headers["retry-after"] == "3"
    async with AsyncOpenAI(base_url=f"{host.url}/v1", api_key="wrong", max_retries=0) as stranger:
        with pytest.raises(AuthenticationError):
            await stranger.models.list()
