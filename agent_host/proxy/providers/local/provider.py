"""The provider for the local model."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from pydantic_core import from_json, to_json  # noqa: TID251  reads what this process has made

from agent_common.clock import Clock
from agent_common.json_reader import run_by_size

from ....errors import ProviderFailed
from ...catalog.catalog import ProviderSpec
from .. import wire
from ..base import ProviderAnswer, ProviderCall
from ..openai_compatible import OpenAICompatible
from .engine import Engine, start_engine
from .prompt import Choices, call_choices, call_request, parse_call, plain_request

NOTICE = "[SmolLM2-135M, a very small local model: do not rely on what it says] "
_CONNECT_SECONDS = 5.0


class LocalProvider:
    """Answers with the local model, loaded by the first call. Text answers start with a warning about its size."""

    def __init__(self, clock: Clock, idle_timeout: float, load_engine: Callable[[], Engine] = start_engine) -> None:
        self._clock = clock
        self._idle_timeout = idle_timeout
        self._load = load_engine
        self._loading = asyncio.Lock()
        self._engine: Engine | None = None
        self._client: OpenAICompatible | None = None

    @asynccontextmanager
    async def call(self, call: ProviderCall) -> AsyncGenerator[ProviderAnswer]:
        client = await self._get_client()
        payload: dict[str, Any] = await run_by_size(len(call.content), partial(from_json, call.content))
        if choices := call_choices(payload):
            yield await self._tool_call(client, payload, call.streamed, choices)
            return
        streaming = {"stream": True, "stream_options": {"include_usage": True}} if call.streamed else {}
        asked = ProviderCall("chat", to_json({**plain_request(payload), **streaming}), call.streamed)
        async with client.call(asked) as answer:
            if answer.status != 200:
                yield answer
            elif call.streamed:
                yield ProviderAnswer(200, wire.STREAM_HEADERS, self._with_notice(payload, answer.body))
            else:
                yield ProviderAnswer(200, wire.JSON_HEADERS, _with_notice_whole(answer.body))

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()
        held = [self._engine]
        self._engine = None
        await asyncio.to_thread(held.clear)  # drops the last reference; the server then stops, which blocks

    async def _get_client(self) -> OpenAICompatible:
        async with self._loading:
            if self._client is None:
                self._engine = await asyncio.to_thread(self._load)
                spec = ProviderSpec("local", "openai", self._engine.url, self._engine.key)
                # llama.cpp's server closes the connection after a stream without announcing it.
                self._client = OpenAICompatible(spec, _CONNECT_SECONDS, self._idle_timeout, in_process=True)
            return self._client

    async def _tool_call(
        self, client: OpenAICompatible, payload: dict[str, Any], streamed: bool, choices: Choices
    ) -> ProviderAnswer:
        async with client.call(ProviderCall("chat", to_json(call_request(payload, choices)))) as answer:
            body = b"".join([data async for data in answer.body])
        if answer.status != 200:
            return ProviderAnswer(answer.status, wire.JSON_HEADERS, wire.body_parts([body]))
        made = from_json(body)
        chosen = parse_call(made["choices"][0]["message"]["content"] or "")
        if chosen is None:
            raise ProviderFailed("the local model did not finish its tool call")
        tool_call = wire.ProviderToolCall(f"call_{secrets.token_hex(12)}", *chosen)
        completion = self._reply(payload, tool_call, made["usage"])
        return wire.to_answer(payload, streamed, completion)

    async def _with_notice(self, payload: dict[str, Any], body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        yield wire.chunk(self._reply(payload), {"role": "assistant", "content": NOTICE})
        async for data in body:
            yield data

    def _reply(
        self, payload: dict[str, Any], tool_call: wire.ProviderToolCall | None = None, usage: Any = None
    ) -> wire.ChatCompletion:
        return wire.ChatCompletion(
            payload["model"], self._clock.now_ms() // 1000, 0, [], tool_call, reported_usage=usage
        )


async def _with_notice_whole(body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    reply = from_json(b"".join([data async for data in body]))
    message = reply["choices"][0]["message"]
    message["content"] = NOTICE + (message["content"] or "")
    yield to_json(reply)
