"""The model client: streams completions from the mesh, or any OpenAI-compatible endpoint, over pooled connections.

It uses HTTP directly instead of the `openai` client, whose typed path validates every message of a request and builds a
model for every streamed token; in a long conversation that costs more than the rest of a turn together
(docs/reference/performance.md). Requests are sent as ready bytes, and responses are parsed once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from agent_common.backoff import Backoff
from agent_common.completions import (
    SHOULD_RETRY,
    CompletionReader,
    from_response,
    read_error_body,
    with_answer,
    with_cost,
)
from agent_common.net import HttpPool, HttpResponse, TransportFault
from agent_common.profiles import lesson_of
from agent_common.protocol import Profile, Usage

from ..errors import ModelError
from ..ports import Completion, Fallback, ModelEvent, ModelRequest, Retrying
from .answer_stream import read_answer, read_refusal
from .attempt_log import AttemptLog
from .catalog import ModelCatalog
from .model_profiles import ModelProfiles
from .request_body import origin_headers, request_body

MAX_RETRY_SECONDS = 60.0
"""If a provider asks to wait for more seconds, the call fails."""
FIRST_BYTE_FACTOR = 2.5
LOADING_SECONDS = 180.0
"""For how long a model that its server is loading is waited for, whatever the number of attempts."""
MAX_LESSONS = 4
"""Refusals of one call that are answered by a request as they want it."""
EMPTY_ANSWER = "the model's answer is empty"
_BACKOFF = Backoff(first=0.5, most=16.0, jitter=0.5)
_LOADING_BACKOFF = Backoff(first=1.0, most=5.0, jitter=0.5)
_AT_ONCE = 2
"""Attempts that a provider may have repeated at once."""
_MAX_REMEMBERED = 256


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Attempts and timeouts of a model call."""

    attempts: int = 4
    idle_seconds: float = 120.0
    """The longest time without a byte in the middle of an answer."""

    @property
    def first_byte_seconds(self) -> float:
        """The same before its first byte: to read a long prompt, or to load, takes longer than any gap later."""
        return self.idle_seconds * FIRST_BYTE_FACTOR


class ModelClient:
    """Implements ports.Model."""

    def __init__(
        self,
        url: str,
        headers: dict[str, str],
        catalog: ModelCatalog,
        retry_policy: RetryPolicy,
        *,
        names_origin: bool = False,
    ) -> None:
        """`names_origin`: whether requests say whose they are, which is for the mesh only."""
        self._url = url
        self._catalog = catalog
        self._retry_policy = retry_policy
        self._names_origin = names_origin
        wanted = {"content-type": "application/json", "accept": "text/event-stream", "accept-encoding": "identity"}
        idle = retry_policy.idle_seconds
        first = retry_policy.first_byte_seconds
        self._http = HttpPool(url, wanted | headers, read_timeout=idle, first_timeout=first)
        self._profiles = ModelProfiles(url, catalog)
        self._begin_inside_reasoning: dict[str, None] = {}
        """Models whose answers begin inside reasoning, without its mark, as far as they have shown it."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Stream a completion. It is retried, with backoff, only before the first token, because output is never
        withdrawn. An empty answer is repeated once, and counts if the repetition fails."""
        await self._catalog.fetch_once(request.model)
        retries = _Retries(request.attempts or self._retry_policy.attempts)
        empty: Completion | None = None
        lessons: list[_Learnt] = []
        while True:
            retries.attempt += 1
            started = False
            line = AttemptLog(request, retries.attempt)
            try:
                async for event in self._once(request, line, lessons):
                    if not started and isinstance(event, Completion) and retries.repeats_empty(event):
                        yield Retrying(retries.attempt, EMPTY_ANSWER, 0.0, event.usage)
                        empty = replace(event, usage=Usage())
                        break
                    started = True
                    yield event
                else:
                    return
            except _Learnt as lesson:
                if not retries.repeats_lesson():
                    raise lesson.error from None
                lessons.append(lesson)
                line.log_failure(lesson.error, 0.0)
            except ModelError as error:
                delay = None if started else retries.delay(error)
                line.log_failure(error, delay)
                if empty is not None and not started:  # it is an answer, if a poor one
                    yield empty
                    return
                if delay is None:
                    raise
                yield Retrying(retries.attempt, error.message, delay)
                await asyncio.sleep(delay)

    async def close(self) -> None:
        await self._http.close()

    async def _once(self, request: ModelRequest, line: AttemptLog, lessons: list[_Learnt]) -> AsyncIterator[ModelEvent]:
        """Ask once, by what refusals of this request have taught too; it is remembered if the model answers,
        as a refusal may also quote names from the conversation."""
        card = self._catalog.cards.get(request.model)
        profile = self._profiles.profile(request.model)
        for lesson in lessons:
            profile = profile.updated(lesson.profile)
        maker = self._profiles.maker(request.model)
        fallback = None
        body_for = partial(request_body, request, card.caching if card is not None else "none", maker)
        body = body_for(profile)
        thinking = request.model in self._begin_inside_reasoning
        reader = CompletionReader(
            len(body), thinking=thinking, tools=request.tools is not None, names=request.tool_names
        )
        begun = False
        try:
            origin = origin_headers(request) if self._names_origin else None
            async with self._http.request(
                "POST", "/chat/completions", body, headers=origin, read_timeout=profile.idle_seconds
            ) as reply:
                begun = True
                self._catalog.record_status(reply.status)
                line.add_response(reply)
                fallback = self._catalog.fallback_in(reply.headers)
                if not 200 <= reply.status < 300:
                    error, lesson = await _read_refusal(reply, profile)
                    if fallback is None and lesson is not None and body_for(profile.updated(lesson)) != body:
                        raise _Learnt(lesson, error)
                    raise error if fallback is not None else await self._explain_unknown_model(error, request.model)
                async for event in read_answer(reply, reader):
                    yield event
        except TransportFault as fault:
            self._catalog.reachable = False
            raise self._transport_error(fault, profile, begun=begun and not fault.before_body) from fault
        except ModelError as error:
            error.by_fallback = fallback is not None
            raise
        if fallback is not None:
            maker = self._profiles.maker(fallback.model)
        else:
            self._remember(request.model, lessons)
            self._remember_reasoning(request.model, begins_inside=reader.began_inside_reasoning)
        completion = self._priced(request, _completion(reader, maker, fallback))
        line.log_completion(completion)
        yield completion

    def _remember(self, model: str, lessons: list[_Learnt]) -> None:
        for lesson in lessons:
            self._profiles.learn(model, lesson.profile, lesson.error.message)
        lessons.clear()

    def _transport_error(self, fault: TransportFault, profile: Profile, *, begun: bool) -> ModelError:
        """Return the error of a connection that failed. A provider that was silent from the beginning, or behind the
        head of its answer, still works on the request, so that it is not repeated."""
        if not fault.timed_out:
            return ModelError(f"the model endpoint {self._url} cannot be reached: {fault.message}", transient=True)
        idle = max(self._retry_policy.idle_seconds, profile.idle_seconds or 0)
        seconds = idle if begun else idle * FIRST_BYTE_FACTOR
        return ModelError(f"the model at {self._url} sent nothing for {seconds:g} s", transient=begun)

    def _remember_reasoning(self, model: str, *, begins_inside: bool) -> None:
        self._begin_inside_reasoning.pop(model, None)
        if begins_inside:
            if len(self._begin_inside_reasoning) >= _MAX_REMEMBERED:
                del self._begin_inside_reasoning[next(iter(self._begin_inside_reasoning))]
            self._begin_inside_reasoning[model] = None

    async def _explain_unknown_model(self, error: ModelError, model: str) -> ModelError:
        """Return the error; for an unknown model with the known names, or with the upstream model of a known name."""
        if error.code != "unknown_model":
            return error
        return ModelError(await self._catalog.explain_refusal(error.message, model), code=error.code)

    def _priced(self, request: ModelRequest, completion: Completion) -> Completion:
        """Return the completion with its cost, as it was reported or at the price of the model that answered, and note
        how much of a reported usage a cache has served."""
        answered = completion.fallback.model if completion.fallback is not None else request.model
        card = self._catalog.cards.get(answered)
        usage = with_cost(completion.usage, self._catalog.price(answered), reported=True)
        if card is not None and completion.usage_reported:
            watched = card.caching != "none" and bool(request.session_id)
            self._catalog.cache_watch.record_usage(answered, request.session_id, usage, watched=watched)
        return completion if usage is completion.usage else replace(completion, usage=usage)


class _Retries:
    """Decides which failures of one call are followed by another attempt."""

    def __init__(self, attempts: int) -> None:
        self.attempt = 0
        self._attempts = attempts
        self._empty = self._loading = self._lessons = 0
        self._began = time.monotonic()

    def repeats_empty(self, completion: Completion) -> bool:
        """Whether an answer is empty and is to be repeated: once, as the second mostly is not."""
        if not completion.empty or completion.stop_reason in ("length", "content-filter"):
            return False
        self._empty += 1
        return self._empty == 1

    def repeats_lesson(self) -> bool:
        """Whether a request is repeated as its refusal has taught. That costs no attempt."""
        self._lessons += 1
        self.attempt -= 1
        return self._lessons <= MAX_LESSONS

    def delay(self, error: ModelError) -> float | None:
        """Return the seconds until the next attempt: as the provider asks, else doubling; with jitter. None: there is
        none."""
        asked = error.retry_after or 0
        if error.loading and asked <= LOADING_SECONDS and time.monotonic() - self._began < LOADING_SECONDS:
            self._loading += 1
            return min(asked, MAX_RETRY_SECONDS) or _LOADING_BACKOFF.pause(self._loading)
        if not error.transient or asked > MAX_RETRY_SECONDS:
            return None
        counted = self.attempt - self._loading - min(self._empty, 1)
        if counted >= min(self._attempts, error.attempts or self._attempts):
            return None
        if error.retry_after is None:
            return _BACKOFF.pause(counted)
        pause = error.retry_after + _BACKOFF.draw(0.0, 0.25)
        return pause if counted <= _AT_ONCE else max(pause, _BACKOFF.pause(counted))


class _Learnt(Exception):
    """A refusal has taught how the request is taken, and it would be sent in another form now."""

    def __init__(self, profile: Profile, error: ModelError) -> None:
        super().__init__(error.message)
        self.profile = profile
        self.error = error


async def _read_refusal(reply: HttpResponse, sent: Profile) -> tuple[ModelError, Profile | None]:
    """Return what a refusal means, and how the request may be taken, if it says so."""
    refusal = await read_refusal(reply)
    error = _heeded(from_response(reply.status, reply.headers, refusal), reply.headers)
    return error, lesson_of(reply.status, read_error_body(refusal), sent)


def _heeded(error: ModelError, headers: Mapping[str, str]) -> ModelError:
    """Return the error of a refusal as its provider says whether another attempt helps, unless it is about the
    account."""
    given = headers.get(SHOULD_RETRY)
    if given == "false":
        error.transient = error.loading = False
    elif given == "true" and error.code in ("model_unavailable", "model_config"):
        error.transient = True
    return error


def _completion(reader: CompletionReader, maker: str, fallback: Fallback | None) -> Completion:
    return Completion(
        reader.stop_reason,
        reader.calls,
        with_answer(reader.usage, Usage.estimated_from_bytes(0, reader.received).output),
        reader.model,
        usage_reported=reader.report is not None,
        empty=reader.empty,
        maker=maker,
        fields=reader.fields,
        reasoning_member=reader.reasoning_member,
        fallback=fallback,
    )
