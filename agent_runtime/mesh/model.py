"""The model client: streams completions from the mesh, or any OpenAI-compatible endpoint, over pooled connections.

It uses HTTP directly instead of the `openai` client, whose typed path validates every message of a request and builds a
model for every streamed token; in a long conversation that costs more than the rest of a turn together
(docs/reference/performance.md). Requests are sent as ready bytes, and responses are parsed once.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

from pydantic_core import to_json

from agent_common.backoff import Backoff
from agent_common.json_reader import INLINE_BYTES
from agent_common.net import HttpPool, HttpResponse, TransportFault
from agent_common.protocol import Caching
from agent_common.telemetry import logger

from ..errors import ModelError
from ..ports import Completion, ModelEvent, ModelRequest, Retrying
from . import errors
from .caching import cache_fields, with_cache_marks
from .catalog import ModelCatalog
from .stream_parser import EventLines, StreamParser, read_event, read_large_event
from .usage import with_cost

log = logger(__name__)
MAX_RETRY_SECONDS = 60.0
"""If a provider asks to wait for more seconds, the call fails."""
DRAIN_SECONDS = 0.5
"""Maximum seconds to read the rest of a stream so that its connection can be reused."""
_BACKOFF = Backoff(first=0.5, most=16.0, jitter=0.5)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Attempts and timeout of a model call."""

    attempts: int = 4
    idle_seconds: float = 120.0


class _AttemptLog:
    """Writes the log line that ends each attempt of a model call."""

    def __init__(self, request: ModelRequest, attempt: int) -> None:
        self._began = time.monotonic()
        ids = {"session_id": request.session_id, "message_id": request.message_id}
        self._facts: dict[str, Any] = {"model": request.model, "attempt": attempt, **ids}

    def add_response(self, reply: HttpResponse) -> None:
        """Add the status, and the host's request id, which identifies the host's log line of this call."""
        self._facts |= {"http_status": reply.status, "request_id": reply.headers.get("x-request-id")}

    def log_completion(self, completion: Completion) -> None:
        used = {"input": completion.usage.input, "output": completion.usage.output}
        log.info("model call ended", **self._done(), stop_reason=completion.stop_reason, **used)

    def log_failure(self, error: ModelError, delay: float | None) -> None:
        why = {"code": error.code, "error": error.message, "retry_after": error.retry_after, "again_in": delay}
        log.warning("model call failed", **self._done(), **why)

    def _done(self) -> dict[str, Any]:
        return {**self._facts, "seconds": round(time.monotonic() - self._began, 3)}


class ModelClient:
    """Implements ports.Model."""

    def __init__(self, url: str, headers: dict[str, str], catalog: ModelCatalog, retry_policy: RetryPolicy) -> None:
        self._url, self._catalog, self._retry_policy = url, catalog, retry_policy
        wanted = {"content-type": "application/json", "accept": "text/event-stream", "accept-encoding": "identity"}
        self._http = HttpPool(url, wanted | headers, read_timeout=retry_policy.idle_seconds)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Stream a completion. It is retried, with backoff, only before the first token, because output is never
        withdrawn."""
        card = self._catalog.cards.get(request.model)
        body = _body(request, card.caching if card is not None else "none")
        attempts = request.attempts or self._retry_policy.attempts
        for attempt in range(1, attempts + 1):
            started, line = False, _AttemptLog(request, attempt)
            try:
                async for event in self._once(request, body, line):
                    started = True
                    yield event
                return
            except ModelError as error:
                delay = None if started or attempt == attempts else _delay(attempt, error)
                line.log_failure(error, delay)
                if delay is None:
                    raise
                yield Retrying(attempt, error.message, delay)
                await asyncio.sleep(delay)

    async def close(self) -> None:
        await self._http.close()

    async def _once(self, request: ModelRequest, body: bytes, line: _AttemptLog) -> AsyncIterator[ModelEvent]:
        assembly, lines = StreamParser(sent=len(body)), EventLines()
        try:
            async with self._http.request("POST", "/chat/completions", body) as reply:
                self._catalog.record_status(reply.status)
                line.add_response(reply)
                if reply.status != 200:
                    error = errors.from_response(reply.status, reply.headers, await reply.body())
                    raise await self._explain_unknown_model(error, request.model)
                _check_encoding(reply)
                if reply.headers.get("content-type", "").startswith("application/json"):
                    for event in assembly.feed_response(await read_large_event(await reply.body())):
                        yield event
                async for data in reply.pieces:
                    for payload in lines.feed(data):
                        small = len(payload) <= INLINE_BYTES  # nearly all: hundreds a turn
                        for event in assembly.feed_event(
                            read_event(payload) if small else await read_large_event(payload)
                        ):
                            yield event
                    if assembly.done:
                        break
                await _drain(reply)
        except TransportFault as error:
            self._catalog.reachable = False
            if not assembly.complete:  # a failure after the end of the answer does not matter
                raise errors.from_transport(error, self._url, self._retry_policy.idle_seconds) from error
        completion = self._priced(request, assembly.completion(), reported=assembly.report is not None)
        line.log_completion(completion)
        yield completion

    async def _explain_unknown_model(self, error: ModelError, model: str) -> ModelError:
        """Return the error; for an unknown model with the known names, or with the upstream model of a known name."""
        if error.code != "unknown_model":
            return error
        return ModelError(await self._catalog.explain_refusal(error.message, model), code=error.code)

    def _priced(self, request: ModelRequest, completion: Completion, *, reported: bool) -> Completion:
        """Return the completion with its cost, and note how much of a reported usage a cache has served."""
        card = self._catalog.cards.get(request.model)
        if card is None:
            return completion
        usage = with_cost(completion.usage, card.pricing)
        if reported and card.caching != "none" and request.session_id:
            self._catalog.cache_watch.record_usage(request, usage)
        return replace(completion, usage=usage)


def _check_encoding(reply: HttpResponse) -> None:
    coding = reply.headers.get("content-encoding", "identity")
    if coding != "identity":
        raise ModelError(f"the model endpoint sent {coding}, though plain text was asked for", code="model_config")


async def _drain(reply: HttpResponse) -> None:
    """Read the rest of the stream for a short time, so that the connection can be reused."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(DRAIN_SECONDS):
            async for _ in reply.pieces:
                pass


def _body(request: ModelRequest, caching: Caching) -> bytes:
    """Return the request as JSON, joined from parts that were serialized once."""
    head: dict[str, Any] = {"model": request.model, "stream": True, "stream_options": {"include_usage": True}}
    if request.max_tokens is not None:
        head["max_tokens"] = request.max_tokens
    if request.temperature is not None:
        head["temperature"] = request.temperature
    head |= cache_fields(caching, request)
    messages = with_cache_marks(request.messages) if caching == "breakpoints" else request.messages
    pieces = [to_json(head)[:-1], b',"messages":[', b",".join(messages), b"]"]
    if request.tools is not None:
        pieces += [b',"tools":', request.tools, b',"tool_choice":"', request.tool_choice.encode(), b'"']
    return b"".join((*pieces, b"}"))


def _delay(attempt: int, error: ModelError) -> float | None:
    """Return the seconds until the next attempt: as the provider asks, else doubling; with jitter. None: no retry."""
    if not error.transient or (error.retry_after or 0) > MAX_RETRY_SECONDS:
        return None
    if error.retry_after is not None:
        return error.retry_after + _BACKOFF.draw(0.0, 0.25)
    return _BACKOFF.pause(attempt)
