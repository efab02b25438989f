"""Call Anthropic's Messages API by the package `anthropic`, on its raw responses.

The package's typed path would build an object of every message sent and every event read, which costs more than the
rest of a turn together. Its raw path writes the same address and the same headers anew for each call. So the package
writes them once, and requests are sent and events are read here.
"""

from __future__ import annotations

import asyncio
import importlib
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx2
import structlog
from pydantic_core import to_json

from agent_common.completions import SHOULD_RETRY, from_response
from agent_common.json_reader import run_by_size

from ....errors import ProviderFailed
from ...catalog.catalog import ProviderSpec
from ..base import ProviderAnswer, ProviderCall
from ..http import (
    is_stream,
    key_refused,
    open_client,
    read_answer,
    read_refusal,
    read_stream_event,
    refuses_key,
    stream_texts,
    transport_failed,
)
from .chunks import ChunkWriter
from .completion import to_completion
from .errors import failure, openai_error_body
from .request import build_request
from .thinking import BINDING_BETA

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

_PATH = "/v1/messages"
_NO_KEY = "none"
"""Sent where the catalog names no key, because the package would else take one from the environment."""
_BOUND = b"bound to a different conversation"
_MOST_MODELS = 256
log = structlog.get_logger(__name__)


class _Client(NamedTuple):
    """What each call is sent by, to and with."""

    http: httpx2.AsyncClient
    url: httpx2.URL
    headers: httpx2.Headers


class AnthropicProvider:
    """One endpoint that speaks Anthropic's API. The package is imported by the first call, off the event loop."""

    def __init__(self, spec: ProviderSpec, connect_timeout: float, idle_timeout: float) -> None:
        self._spec = spec
        self._timeout = httpx2.Timeout(idle_timeout, connect=connect_timeout, pool=None).as_dict()
        self._opening = asyncio.Lock()
        self._open: _Client | None = None
        self._bound_thinking: set[str] = set()
        """Models that have refused thinking because what stands before it has changed."""

    @asynccontextmanager
    async def call(self, call: ProviderCall) -> AsyncGenerator[ProviderAnswer]:
        if call.operation != "chat":
            raise ProviderFailed(f"the provider {self._spec.name!r} has no embeddings", code="unsupported_operation")
        response = await self._ask(call)
        try:
            yield await self._answer(response, call.streamed)
        except (httpx2.TransportError, httpx2.DecodingError) as error:
            raise transport_failed(self._spec, error, reached=True) from error
        finally:
            await response.aclose()

    async def close(self) -> None:
        if self._open is not None:
            await self._open.http.aclose()

    async def _ask(self, call: ProviderCall) -> httpx2.Response:
        """Return the answer; its body is unread unless it is an error. A compaction and a new tool change what stands
        before thinking; a model that refuses such thinking is asked to pass over it, from then on."""
        passes_over = call.model in self._bound_thinking
        body = await run_by_size(len(call.content), partial(build_request, call, passes_over))
        response = await self._send(body, {"anthropic-beta": BINDING_BETA} if passes_over else {})
        if passes_over or response.status_code != 400 or _BOUND not in response.content:
            return response
        await response.aclose()
        if len(self._bound_thinking) >= _MOST_MODELS:
            self._bound_thinking.clear()
        self._bound_thinking.add(call.model)
        log.warning(
            "the model refuses thinking behind what has changed; it passes over it from now on", model=call.model
        )
        return await self._ask(call)

    async def _client(self) -> _Client:
        async with self._opening:
            if self._open is None:
                package = await asyncio.to_thread(importlib.import_module, "anthropic")
                http = open_client()
                opened: AsyncAnthropic = package.AsyncAnthropic(
                    api_key=self._spec.api_key or _NO_KEY,
                    base_url=self._spec.base_url.removesuffix("/v1"),
                    max_retries=0,
                    open_telemetry=False,
                    http_client=http,
                )
                headers = httpx2.Headers(http.headers)
                headers.update(_needed_headers(opened.default_headers))
                self._open = _Client(http, httpx2.URL(f"{opened.base_url}".rstrip("/") + _PATH), headers)
            return self._open

    async def _send(self, body: bytes, headers: dict[str, str]) -> httpx2.Response:
        """Return the answer; its body is unread unless it is an error. Raises ProviderFailed if there is none."""
        client = self._open or await self._client()
        extensions = {"timeout": self._timeout}
        request = httpx2.Request("POST", client.url, headers=client.headers, content=body, extensions=extensions)
        request.headers.update(headers)
        try:
            response = await client.http.send(request, stream=True)
        except httpx2.TransportError as error:
            raise transport_failed(self._spec, error, reached=False) from error
        if response.status_code >= 400:
            try:
                await response.aread()
            except (httpx2.TransportError, httpx2.DecodingError) as error:
                await response.aclose()
                raise transport_failed(self._spec, error, reached=True) from error
        return response

    async def _answer(self, response: httpx2.Response, streamed: bool) -> ProviderAnswer:
        status = response.status_code
        if status >= 400:
            content = read_refusal(response)
            if refuses_key(status, response.headers, content):
                raise key_refused(self._spec, status, content)
            body = _once(openai_error_body(status, content))
            return ProviderAnswer(status, _passed(response, content), body, self._spec.api_key)
        if streamed and await is_stream(response):
            return ProviderAnswer(status, {"content-type": "text/event-stream"}, self._chunks(response))
        completion = to_completion(await read_answer(response, "content", failure), _now())
        return ProviderAnswer(status, {"content-type": "application/json"}, _once(to_json(completion)))

    async def _chunks(self, response: httpx2.Response) -> AsyncIterator[bytes]:
        """Yield the chunks of a stream. If it breaks off, yield the usage so far, then raise ProviderFailed; once the
        model has ended its answer, nothing that happens is a failure."""
        writer = ChunkWriter(_now())
        try:
            async with aclosing(stream_texts(response)) as texts:
                async for text in texts:
                    if chunk := writer.feed(_read_event(text)):
                        yield chunk
            if not writer.stopped:
                raise ProviderFailed(f"the provider {self._spec.name!r} broke off its answer", code="provider_dropped")
        except (httpx2.TransportError, httpx2.DecodingError, ProviderFailed):
            if not writer.stopped:
                yield writer.usage_event()
                raise
        yield writer.finish()


def _needed_headers(headers: Mapping[str, object]) -> dict[str, str]:
    """Return what the package sends without the headers that only tell what it runs on."""
    return {
        name: text
        for name, text in headers.items()
        if isinstance(text, str) and not name.lower().startswith("x-stainless-")
    }


def _read_event(text: bytes) -> dict[str, Any]:
    event = read_stream_event(text)
    return {"type": "message_stop"} if event is None else event  # the end of a stream of OpenAI's


def _passed(response: httpx2.Response, content: bytes) -> dict[str, str]:
    """Return the headers of an error that say whether and when to try again, wherever the provider has said when. The
    others describe a body that was converted."""
    given = response.headers.get(SHOULD_RETRY)
    wait = from_response(response.status_code, response.headers, content).retry_after
    return ({SHOULD_RETRY: given} if given else {}) | ({} if wait is None else {"retry-after": f"{wait:g}"})


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body


def _now() -> int:
    return int(time.time())
