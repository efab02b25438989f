"""`/v1/chat/completions` and `/v1/embeddings`. They are the hot path of every turn, so each is a plain ASGI app.

A request is parsed once and serialized once; the bytes of a stream are passed through.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from types import NoneType
from typing import Any

import anyio
from pydantic_core import to_json
from sqlalchemy.exc import SQLAlchemyError
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message, Receive, Scope, Send

from agent_common.clock import Clock
from agent_common.completions import with_answer, with_cost
from agent_common.json_reader import JsonLimits, JsonRefused, read_json, run_by_size
from agent_common.net import HostPatterns, ShareCounter
from agent_common.protocol import Usage

from ...access import AccessGuard, HostCaller
from ...budgets import Budgets, HeldReserve
from ...errors import InvalidCall, RequestError, TooMany, Unavailable
from ...http import MAX_BODY
from ..catalog.catalog import CatalogModel, HostCatalog, Operation
from ..json_access import as_object
from ..ledger.ledger import CallRecord, ModelCallLedger
from ..ledger.lines import RefusalLog, log_call
from ..providers import ProviderCall, Providers
from .answer_memory import HeldAnswers, send_in_pieces
from .cache_watch import CacheWatch, prefix_of
from .fallbacks import Attempt, CircuitBreaker, candidates, for_model, request_usage
from .fields import check_fields
from .media_addresses import check_addresses
from .order import WHOLE_NUMBERS, ModelCallOrder, most_output, reserve_of, wanted_answers, wanted_output
from .refused_usage import RefusedUsage
from .relay import ModelRefusal, Relay

READ_ON_SECONDS = 3.0
"""How long the provider's answer is still read after the client has disconnected."""
BODY_LIMITS = JsonLimits(max_bytes=MAX_BODY, max_values=400_000)
"""The number of values allows for embeddings of token lists, which hold hundreds of thousands of tokens."""
LONGEST_NAME = 256
"""Characters of a model's name."""
UNSEEN_TOKENS_PER_SECOND = 100
"""Of a stream in silence: models that think say nothing meanwhile, or say it only at the end."""
_MOST_OF_A_REASON = 500
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,100}")


@dataclass(frozen=True, slots=True)
class ModelProxy:
    """The services of both operations, and the steps of a model call."""

    guard: AccessGuard
    catalog: HostCatalog
    providers: Providers
    ledger: ModelCallLedger
    budgets: Budgets
    clock: Clock
    calls: ShareCounter
    held: ShareCounter
    """Bytes of answers in memory, by agent."""
    media: HostPatterns
    """Hosts whose addresses a provider may be asked to fetch."""
    breaker: CircuitBreaker
    cache_watch: CacheWatch
    refused_usage: RefusedUsage = field(default_factory=lambda: RefusedUsage(BODY_LIMITS))

    @asynccontextmanager
    async def reserve_call(self, scope: Scope) -> AsyncGenerator[HostCaller]:
        """Authenticate the caller and reserve one of its concurrent calls for the block.

        Raises Unauthorized, or TooMany if the agent has too many connections or calls.
        """
        caller = await self.guard.authenticate(scope)
        with self.calls.hold(caller.agent_id) as reserved:
            if not reserved:
                text = "you have too many model calls at a time; try again when one of them has ended"
                raise TooMany(text, code="too_many_calls")
            yield caller

    async def read_order(self, caller: HostCaller, request: Request, operation: Operation) -> ModelCallOrder:
        """Read and check a request. Raises RequestError if it is refused."""
        self.ledger.check_capacity()
        body = await request.body()
        key = _idempotency_key(caller, request.headers)
        origin = await self.budgets.origin(caller.agent_id, request.headers)
        first, output, answers = await run_by_size(len(body), partial(self._parse_call, body, operation, key))
        return ModelCallOrder(origin, _request_id(request.headers), first, len(body), output, answers)

    def _parse_call(self, body: bytes, operation: Operation, key: str | None) -> tuple[Attempt, int | None, int]:
        """Return the call that the request asks for, the most tokens that it wants in each answer, and how many
        answers. Raises RequestError."""
        payload = _parse_payload(body, operation)
        check_addresses(payload, self.media)
        model = self.catalog.resolve(payload["model"], operation)
        for candidate in candidates(self.catalog, model, operation):
            check_fields(payload, candidate, operation)
        payload["model"] = model.upstream
        output = wanted_output(payload)
        streamed = operation == "chat" and bool(payload.get("stream"))
        hide_usage = streamed and request_usage(payload, stream_usage=self._takes_stream_options(model))
        call = for_model(ProviderCall(operation, to_json(payload), streamed, key), model)
        attempt = Attempt(model, call, hide_usage, prefix_of(payload) if call.cached else None)
        return attempt, output, wanted_answers(payload)

    def _takes_stream_options(self, model: CatalogModel) -> bool:
        known = model.profile.stream_options is not False and self.catalog.providers[model.provider].stream_usage
        return known and model not in self.refused_usage

    async def execute(self, order: ModelCallOrder, relay: Relay, send: Send) -> None:
        """Make the call, of the model's fallbacks too while it cannot be answered, and send the answer."""
        first = order.first
        models = candidates(self.catalog, first.model, first.call.operation)
        last: list[Message] | None = None
        reason: str | None = None
        for model in self.breaker.usable(models):
            attempt = first if model is first.model else await self._instead(first, model)
            if model is not first.model:
                reason = reason or f"the provider {first.model.provider!r} rests after several outages"
            relay.begin(attempt, reason, replaceable=model is not models[-1])
            try:
                last = await self._attempt(order, attempt, relay, reason)
            except InvalidCall:  # it has no price, which a budget asks for; the client has not asked for it
                if model is first.model:
                    raise
                continue
            if not relay.may_be_replaced:
                break
            reason = f"{model.name}: {relay.outcome.error}"[:_MOST_OF_A_REASON]
        if last is None:  # only fallbacks without a price were left, so the model is asked as one without fallbacks is
            relay.begin(first, None, replaceable=False)
            last = await self._attempt(order, first, relay, None)
        for message in last:
            await send_in_pieces(send, message)

    async def _instead(self, first: Attempt, model: CatalogModel) -> Attempt:
        stream_usage = self._takes_stream_options(model)
        return await run_by_size(len(first.call.content), partial(first.instead, model, stream_usage=stream_usage))

    async def _attempt(
        self, order: ModelCallOrder, attempt: Attempt, relay: Relay, reason: str | None
    ) -> list[Message]:
        """Ask one model, and record the call in any case. Return the last messages of the reply.

        Raises RequestError if a budget does not allow the call, or its reserve cannot be written."""
        try:
            held = await self.budgets.reserve(reserve_of(order, attempt, self.clock.now_ms()))
        except SQLAlchemyError as error:
            raise Unavailable("the host's database does not answer", code="database_unavailable") from error
        refused: list[ModelRefusal] = []

        def amend(refusal: ModelRefusal) -> ProviderCall | None:
            refused.append(refusal)
            return self.refused_usage.amend(attempt, refusal) if len(refused) == 1 else None

        began_at = self.clock.now_ms()
        began = self.clock.monotonic()
        try:
            provider = self.providers.get(attempt.model.provider, attempt.model.api)
            return await relay.forward(provider, attempt.call, amend)
        finally:
            if refused and relay.outcome.status == "complete":
                self.refused_usage.remember(attempt, refused[0])
            duration_ms = round((self.clock.monotonic() - began) * 1000)
            if relay.outcome.status != "client_gone":
                self.breaker.note(attempt.model.provider, outage=relay.outcome.outage)
            record = _record(order, attempt, relay, held, began_at, duration_ms, reason)
            if record.usage is not None and not record.estimated and attempt.call.operation == "chat":
                self.cache_watch.note(order.origin.agent_id, attempt.model, attempt.prefix, record.usage)
            self.ledger.record(record, held)
            log_call(record, relay.outcome.code, relay.outcome.error)


class ModelEndpoint:
    """One operation as an ASGI app. When the client disconnects, the provider's call ends soon after."""

    def __init__(self, proxy: ModelProxy, operation: Operation) -> None:
        self._proxy = proxy
        self._operation: Operation = operation
        self._refusals = RefusalLog(proxy.clock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._proxy.reserve_call(scope) as caller:
            try:
                order = await self._proxy.read_order(caller, Request(scope, receive), self._operation)
            except ClientDisconnect:
                return
            except RequestError as error:
                self._refusals.log(caller.agent_id, error)
                raise
            held = HeldAnswers(self._proxy.held, caller.agent_id)
            relay = Relay(send, order.request_id, held)
            refusal: RequestError | None = None
            with closing(held):
                async with anyio.create_task_group() as group:
                    group.start_soon(_cancel_on_disconnect, receive, relay, group.cancel_scope)
                    try:
                        await self._proxy.execute(order, relay, send)
                    except RequestError as error:  # by a budget, before anything was sent
                        refusal = error
                    group.cancel_scope.cancel()
            if refusal is not None:
                self._refusals.log(caller.agent_id, refusal)
                raise refusal


async def _cancel_on_disconnect(receive: Receive, relay: Relay, scope: anyio.CancelScope) -> None:
    """Cancel the call some time after its client has disconnected, because providers report usage last."""
    while (await receive())["type"] != "http.disconnect":
        pass
    relay.client_gone = True
    scope.deadline = anyio.current_time() + READ_ON_SECONDS


# ---------------------------------------------------------------- reading


def _parse_payload(body: bytes, operation: Operation) -> dict[str, Any]:
    """Parse the body, and check the types of the fields that the host reads. Other fields are left to the provider."""
    try:
        payload = as_object(read_json(body, BODY_LIMITS))
    except JsonRefused as refusal:
        kind = "not JSON" if refusal.code in ("invalid_json", "invalid_utf8") else "refused"
        raise InvalidCall(f"the body is {kind}: {refusal}") from refusal
    if not payload:
        raise InvalidCall("the body must be a JSON object")
    needed = "messages" if operation == "chat" else "input"
    name = payload.get("model")
    if not isinstance(name, str) or len(name) > LONGEST_NAME:
        text = f"model: must be the name of a model, of at most {LONGEST_NAME} characters, such as 'default'"
        raise InvalidCall(f"{text}; GET /v1/models lists them", param="model")
    if not payload.get(needed):
        raise InvalidCall(f"{needed}: is required and must not be empty", param=needed)
    if operation == "chat" and not isinstance(payload["messages"], list):
        raise InvalidCall("messages: must be a list of messages", param="messages")
    for number in WHOLE_NUMBERS if operation == "chat" else ():
        if type(payload.get(number)) not in (int, NoneType):
            raise InvalidCall(f"{number}: must be a whole number", param=number)
    if not isinstance(payload.get("stream"), bool | None):
        raise InvalidCall("stream: must be true or false", param="stream")
    if not isinstance(payload.get("stream_options"), dict | None):
        raise InvalidCall("stream_options: must be an object", param="stream_options")
    return payload


def _request_id(headers: Mapping[str, str]) -> str:
    given = headers.get("x-request-id", "")
    return given if _REQUEST_ID.fullmatch(given) else f"req_{secrets.token_hex(12)}"


def _idempotency_key(caller: HostCaller, headers: Mapping[str, str]) -> str | None:
    """Return the key for the provider, or None. It is made unique to the agent, because agents share one account."""
    given = headers.get("idempotency-key")
    return sha256(f"{caller.agent_id}\n{given}".encode()).hexdigest() if given else None


def _record(
    order: ModelCallOrder,
    attempt: Attempt,
    relay: Relay,
    held: HeldReserve | None,
    began_at: int,
    duration_ms: int,
    reason: str | None,
) -> CallRecord:
    outcome = relay.outcome
    usage = outcome.usage
    estimated = False
    answered = outcome.http_status is not None and outcome.http_status < 300
    if usage is None and (answered or outcome.status == "client_gone"):
        usage = _estimate(order.size, attempt.model, _estimated_output(order, attempt, relay))
        estimated = True
    elif usage is not None and attempt.call.streamed:
        counted = with_answer(usage, relay.tokens)
        if counted is not usage:
            usage = with_cost(counted, attempt.model.pricing, reported=False)
            estimated = True
    return CallRecord(
        request_id=order.request_id,
        origin=order.origin,
        operation=attempt.call.operation,
        model=attempt.model.name,
        provider=attempt.model.provider,
        upstream_model=attempt.model.upstream,
        streamed=attempt.call.streamed,
        status=outcome.status,
        http_status=outcome.http_status,
        started_at=began_at,
        duration_ms=duration_ms,
        usage=usage,
        estimated=estimated,
        asked_model=order.first.model.name if reason else None,
        fallback_reason=reason,
        reserve_id=held.id if held is not None else None,
    )


def _estimated_output(order: ModelCallOrder, attempt: Attempt, relay: Relay) -> int:
    """Estimate the tokens of an answer. One whose client has hung up counts no less than it would have been: as a whole
    all that was reserved for it, as a stream what was seen of it and what may have been thought before."""
    outcome = relay.outcome
    seen = relay.tokens
    if outcome.status != "client_gone" or (outcome.http_status or 0) >= 300:
        return seen
    most = most_output(order, attempt)
    if not attempt.call.streamed:
        return most
    unseen = round(UNSEEN_TOKENS_PER_SECOND * relay.silent_seconds) * order.answers
    return max(seen, min(most, seen + unseen))


def _estimate(size: int, model: CatalogModel, output: int) -> Usage:
    """Estimate the usage of a call whose provider reported none, at four bytes of the request for a token."""
    most = model.context_limit or size
    return with_cost(Usage(input=min(size // 4, most), output=output), model.pricing, reported=False)
