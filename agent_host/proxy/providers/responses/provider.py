"""Call OpenAI's Responses API by the package `openai`, on its raw responses.

The package's typed path would build an object of every item sent and every event read, which costs more than the rest
of a turn together. So the body is passed as bytes and the events are read here: connections, credentials and errors are
the package's.
"""

from __future__ import annotations

import asyncio
import importlib
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import httpx2
import structlog
from pydantic_core import to_json

from agent_common.completions import SHOULD_RETRY, read_error_body
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
from .errors import failure, refused_member
from .request import build_request

if TYPE_CHECKING:
    from openai import AsyncOpenAI

_PATH = "/responses"
_NO_KEY = "none"
"""Sent where the catalog names no key, because the package would else take one from the environment."""
_MOST_MODELS = 256
log = structlog.get_logger(__name__)


class ResponsesProvider:
    """One endpoint that speaks the Responses API. The package is imported by the first call, off the event loop."""

    def __init__(self, spec: ProviderSpec, connect_timeout: float, idle_timeout: float) -> None:
        self._spec = spec
        self._timeout = httpx2.Timeout(idle_timeout, connect=connect_timeout, pool=None)
        self._opening = asyncio.Lock()
        self._open: AsyncOpenAI | None = None
        self._refused: dict[str, frozenset[str]] = {}
        """Members of ours that a model has refused."""

    @asynccontextmanager
    async def call(self, call: ProviderCall) -> AsyncGenerator[ProviderAnswer]:
        if call.operation != "chat":
            raise ProviderFailed("the Responses API has no embeddings", code="unsupported_operation")
        response = await self._ask(call)
        try:
            yield await self._answer(response, call.streamed)
        except (httpx2.TransportError, httpx2.DecodingError) as error:
            raise transport_failed(self._spec, error, reached=True) from error
        finally:
            await response.aclose()

    async def close(self) -> None:
        if self._open is not None:
            await self._open.close()

    async def _ask(self, call: ProviderCall) -> httpx2.Response:
        """Return the answer; its body is unread unless it is an error. A member of ours that the model refuses is left
        out, and from then on once the model has answered without it."""
        refused = self._refused.get(call.model, frozenset[str]())
        why = ""
        while True:
            body = await run_by_size(len(call.content), partial(build_request, call, refused))
            response = await self._send(body, call.idempotency_key)
            if response.status_code < 400:
                if why:  # not before, as a refusal may also quote what the agent said
                    self._learn(call.model, refused, why)
                return response
            report = read_error_body(response.content)
            member = refused_member(response.status_code, report)
            if member is None or member in refused:
                return response
            await response.aclose()
            refused = refused | {member}
            why = report.message

    def _learn(self, model: str, refused: frozenset[str], why: str) -> None:
        if len(self._refused) >= _MOST_MODELS and model not in self._refused:
            del self._refused[next(iter(self._refused))]
        self._refused[model] = refused
        log.warning("the model has refused a request as it was", model=model, error=why, without=sorted(refused))

    async def _client(self) -> AsyncOpenAI:
        async with self._opening:
            if self._open is not None:
                return self._open
            package = await asyncio.to_thread(importlib.import_module, "openai")
            opened: AsyncOpenAI = package.AsyncOpenAI(
                api_key=self._spec.api_key or _NO_KEY,
                base_url=self._spec.base_url,
                timeout=self._timeout,
                max_retries=0,
                http_client=open_client(),
            )
            self._open = opened
            return opened

    async def _send(self, body: bytes, key: str | None) -> httpx2.Response:
        """Return the answer of any status. Raises ProviderFailed if there is none."""
        client = self._open or await self._client()
        from openai import APIConnectionError, APIStatusError, Omit

        # What the environment says of an account is of another key.
        headers: dict[str, Any] = {"OpenAI-Organization": Omit(), "OpenAI-Project": Omit()}
        headers |= {"content-type": "application/json", **({"idempotency-key": key} if key else {})}
        try:
            return await client.post(
                _PATH, cast_to=httpx2.Response, content=body, options={"headers": headers}, stream=True,
                stream_cls=None,
            )  # fmt: skip
        except APIStatusError as error:
            return error.response
        except APIConnectionError as error:
            raise transport_failed(self._spec, error.__cause__ or error, reached=False) from error

    async def _answer(self, response: httpx2.Response, streamed: bool) -> ProviderAnswer:
        status = response.status_code
        if status >= 400:
            content = read_refusal(response)
            if refuses_key(status, response.headers, content):
                raise key_refused(self._spec, status, content)
            passed = {name: value for name, value in response.headers.items() if name in _PASSED or _is_limit(name)}
            return ProviderAnswer(status, passed, _once(content), self._spec.api_key)
        if streamed and await is_stream(response):
            return ProviderAnswer(status, {"content-type": "text/event-stream"}, self._chunks(response))
        completion = to_completion(await read_answer(response, "output", failure), _now())
        return ProviderAnswer(status, {"content-type": "application/json"}, _once(to_json(completion)))

    async def _chunks(self, response: httpx2.Response) -> AsyncIterator[bytes]:
        """Yield the chunks of a stream. Raises ProviderFailed if it breaks off or holds an error."""
        writer = ChunkWriter(_now())
        async with aclosing(stream_texts(response)) as texts:
            async for text in texts:
                if chunk := writer.feed(read_stream_event(text) or {}):
                    yield chunk
                if writer.complete:
                    return
        raise ProviderFailed(f"the provider {self._spec.name!r} broke off its answer", code="provider_dropped")


_PASSED = ("retry-after", "retry-after-ms", SHOULD_RETRY, "content-type")


def _is_limit(name: str) -> bool:
    return name.startswith("x-ratelimit-")


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body


def _now() -> int:
    return int(time.time())
