"""Pass a provider's answer on to the client: streams as they arrive, other answers as a whole."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from pydantic_core import to_json
from starlette.types import Message, Send

from agent_common.completions import (
    FAILED,
    SHOULD_RETRY,
    DocumentEnd,
    ErrorReport,
    EventSplitter,
    error_in,
    find_report,
    from_event,
    from_response,
    joined_report,
    read_error_body,
    read_event,
    stop_reason,
)
from agent_common.json_reader import INLINE_BYTES
from agent_common.protocol import Usage

from ...errors import ModelError, ProviderFailed
from ...http import openai_error
from ..json_access import object_list
from ..ledger.ledger import CallStatus
from ..providers import Provider, ProviderAnswer, ProviderCall
from .answer_body import AnswerBody
from .answer_memory import HeldAnswers
from .error_bodies import MOST_QUOTED, as_openai_error, error_code, error_text, is_openai_error, quoted
from .fallbacks import Attempt
from .usage import find_usage, priced_usage, set_cost
from .usage_filter import TOKEN, UsageFilter

_PASSED_HEADERS = frozenset({"retry-after", "retry-after-ms", SHOULD_RETRY})
_MOST_ANSWERED = 64 * 1024 * 1024
_LASTING = frozenset((
    *("provider_auth", "provider_unreadable", "invalid_request", "unsupported_operation"),
    "too_many_bytes",  # of the agent's own answers
))  # fmt: skip
_OUTAGES = frozenset(("provider_unreachable", "provider_dropped", "provider_timeout", "overloaded_error", "api_error"))
_MOST_HELD_BACK = 256 * 1024
LONGEST_HELD_BACK = 100.0
"""Seconds. An agent gives up an answer of which no byte has come in 300, and what it thought about is paid for."""
_REFUSED = (400, 422)


@dataclass(slots=True)
class RelayOutcome:
    """How the call ended. The default is `client_gone`, which stays if the call is cancelled."""

    status: CallStatus = "client_gone"
    http_status: int | None = None
    usage: Usage | None = None
    code: str | None = None
    """The error code that the client received, or None."""
    error: str | None = None
    """The error message, or None."""
    transient: bool = False
    """Whether another model, or another attempt, may answer."""
    outage: bool = False
    """Whether the provider as a whole seems to be down."""


@dataclass(frozen=True, slots=True)
class ModelRefusal:
    """A model's refusal of a request."""

    status: int
    report: ErrorReport


Amend = Callable[[ModelRefusal], ProviderCall | None]


class Relay:
    """Relays one call: `begin` and `forward` for each model that is asked. `forward` returns the last messages unsent,
    so that the call's row is recorded before them."""

    def __init__(
        self, send: Send, request_id: str, held: HeldAnswers, longest_held_back: float = LONGEST_HELD_BACK
    ) -> None:
        self._send = send
        self._held = held
        self._longest_held_back = longest_held_back
        self._request_id = request_id
        self.client_gone = False
        """Set once the client has disconnected. The rest of the answer is then read only for its usage."""
        self.outcome = RelayOutcome()
        self._asked_at: float | None = None
        self._spoke_at: float | None = None

    def begin(self, attempt: Attempt, reason: str | None, *, replaceable: bool) -> None:
        """Prepare for a model's answer. `reason`: why it is asked in place of another. An answer that is `replaceable`
        is held back until its first token, so that another model can be asked before the client has seen anything, but
        no longer than LONGEST_HELD_BACK."""
        self._pricing = attempt.model.pricing
        self._usage_filter = UsageFilter(self._pricing, hidden=attempt.hide_usage)
        self._replaceable = replaceable
        self._streaming = False
        self._size = 0
        self._asked_at = self._spoke_at = None
        self._fallback_headers = (
            {} if reason is None else {"x-model": attempt.model.name, "x-fallback-reason": _header(reason)}
        )
        self.outcome = RelayOutcome()

    @property
    def may_be_replaced(self) -> bool:
        """Whether the model has failed before the client saw anything, in a way that another may not."""
        return self._replaceable and self.outcome.transient and not self._streaming and not self.client_gone

    @property
    def tokens(self) -> int:
        """Estimated number of tokens of the answer so far."""
        return self._usage_filter.tokens or self._size // 4

    @property
    def silent_seconds(self) -> float:
        """How long the provider has worked on the call before the first token, or until now."""
        if self._asked_at is None:
            return 0.0
        return (self._spoke_at or asyncio.get_running_loop().time()) - self._asked_at

    async def forward(self, provider: Provider, call: ProviderCall, amend: Amend) -> list[Message]:
        """Make the call and pass its answer on. `amend` gives the call as the model may take it instead."""
        self._asked_at = asyncio.get_running_loop().time()
        try:
            async with provider.call(call) as answer:
                self.outcome.http_status = answer.status
                body = AnswerBody(answer)
                if answer.status >= 300:
                    content = await self._read_refusal(answer, body)
                    refusal = ModelRefusal(answer.status, read_error_body(content))
                    if answer.status not in _REFUSED or (amended := amend(refusal)) is None:
                        return self._forward_error(answer, content)
                elif await body.is_document():
                    return await self._whole(answer, body)
                else:
                    return await self._stream(answer, body)
            return await self.forward(provider, amended, amend)
        except ProviderFailed as error:
            return self._fail(error)
        finally:
            self.outcome.usage = self.outcome.usage or self._usage_filter.usage

    async def _stream(self, answer: ProviderAnswer, body: AnswerBody) -> list[Message]:
        headers = {"content-type": "text/event-stream", "cache-control": "no-cache", "x-accel-buffering": "no"}
        start = self._start(answer.status, headers, answer)
        held_back = b""
        if not self._replaceable:
            await self._open(start)
        seen = self._usage_filter
        until = asyncio.get_running_loop().time() + self._longest_held_back
        while data := await body.read(seen.complete, seen.answered):
            passed = held_back + seen.feed(data)
            if self._spoke_at is None and seen.tokens:
                self._spoke_at = asyncio.get_running_loop().time()
            if not self._streaming and (seen.error or not TOKEN.search(passed)):
                late = not seen.error and not seen.complete and asyncio.get_running_loop().time() >= until
                if len(passed) <= _MOST_HELD_BACK and not late:
                    held_back = passed
                    continue
            await self._open(start)
            held_back = b""
            if passed:
                await self._send({"type": "http.response.body", "body": passed, "more_body": True})
        rest = held_back + seen.finish()
        self._note(seen.error)
        if not self._streaming and seen.error is None:
            if seen.reason is None and not TOKEN.search(rest):
                raise ProviderFailed("the provider's stream ended before its first token", code="provider_dropped")
            _check_end(seen.reason)
        end: Message = {"type": "http.response.body", "body": rest}
        return [end] if self._streaming else [start, end]

    async def _open(self, start: Message) -> None:
        """Send the head of a stream, once."""
        if not self._streaming:
            self._streaming = True
            await self._send(start)

    async def _whole(self, answer: ProviderAnswer, body: AnswerBody) -> list[Message]:
        content = await self._read(answer, body)
        self._size = len(content)
        if len(content) <= INLINE_BYTES:
            content = self._add_cost(content, answer.status)
        elif content.lstrip().startswith(b"{"):
            content = self._add_cost_unparsed(content)
            self._note(None)
        else:
            raise _not_json(answer.status, content)
        return self._reply(answer.status, content, answer)

    def _note(self, error: ModelError | None) -> None:
        """Note that the answer has ended: with an error inside it, or complete."""
        if error is not None:
            self.outcome.code = error.code
            self.outcome.error = error.message
            self._classify(error)
        self._set_status("complete" if error is None else "failed")

    def _classify(self, error: ModelError, status: int = 200) -> None:
        """Note whether another model may answer what this one has not. An account may also be empty."""
        self.outcome.transient = error.transient or error.code == "model_quota"
        self.outcome.outage = error.transient and error.code == "model_unavailable" and (status == 200 or status >= 500)

    def _add_cost(self, body: bytes, status: int) -> bytes:
        """Record the usage of an answer, and add its cost to the body. Returns one document, without the mark of a
        stream's end that some gateways write behind it; an answer in several pieces as it came."""
        splitter = EventSplitter()
        texts = [*splitter.feed(body), *splitter.finish()]
        try:
            reply = read_event(texts[0] if texts else b"") or {}
        except ModelError as error:
            raise _not_json(status, body) from error
        error = error_in(reply)
        self._note(from_event(error) if error is not None else None)
        reported = find_report(reply)
        for text in texts[1:]:
            with suppress(ModelError):
                later = find_report(read_event(text) or {})
                reported = joined_report(reported, later) if later else reported
        if reported:
            self.outcome.usage = priced_usage(reported, self._pricing)
        if self._replaceable:
            for choice in object_list(reply.get("choices")):
                _check_end(choice.get("finish_reason"))
        if len(texts) > 1:
            return body
        if reported and self.outcome.usage and set_cost(reported, self.outcome.usage.cost_usd):
            return to_json(reply)
        return texts[0]

    def _add_cost_unparsed(self, body: bytes) -> bytes:
        """Record usage and add the cost without parsing the body, because parsing takes a multiple of its memory."""
        reported, span = find_usage(body)
        if reported:
            self.outcome.usage = priced_usage(reported, self._pricing)
            if set_cost(reported, self.outcome.usage.cost_usd):
                return b"%b%b%b" % (body[: span.start], to_json(reported), body[span.stop :])
        return body

    async def _read(self, answer: ProviderAnswer, body: AnswerBody) -> bytes:
        declared = answer.headers.get("content-length", "")
        counted = min(int(declared), _MOST_ANSWERED) if declared.isascii() and declared.isdigit() else 0
        self._held.reserve(counted)  # all at once, so that some of many concurrent answers succeed
        content = bytearray()
        end = DocumentEnd()
        while data := await body.read(end.reached(content)):
            content += data
            if len(content) > _MOST_ANSWERED:
                raise ProviderFailed(f"the provider's answer is longer than {_MOST_ANSWERED} bytes")
            if len(content) > counted:
                self._held.reserve(len(content) - counted)
                counted = len(content)
        return bytes(content)

    async def _read_refusal(self, answer: ProviderAnswer, body: AnswerBody) -> bytes:
        """Return the body of a refusal without the host's key; in place of one that cannot be decompressed, why. Its
        status says enough."""
        try:
            content = await self._read(answer, body)
            return content.replace(answer.key.encode(), b"***") if answer.key else content
        except ProviderFailed as error:
            if error.code != "provider_unreadable":
                raise
            return error.message.encode()

    def _set_status(self, status: CallStatus) -> None:
        """Set the status, unless the client has disconnected."""
        if not self.client_gone:
            self.outcome.status = status

    def _forward_error(self, answer: ProviderAnswer, content: bytes) -> list[Message]:
        """Forward the provider's status and error body, and how long it asks to wait; a body that is not in OpenAI's
        shape is converted."""
        self.outcome.status = "failed"
        if answer.status < 400:
            return self._fail(ProviderFailed(f"the provider answered with a redirect ({answer.status})"))
        meant = from_response(answer.status, answer.headers, content)
        self._classify(meant, answer.status)
        if not is_openai_error(content):
            content = as_openai_error(answer.status, content, meant)
        self.outcome.code = error_code(content)
        self.outcome.error = error_text(content)
        return self._reply(answer.status, content, answer, meant.retry_after)

    def _fail(self, error: ProviderFailed) -> list[Message]:
        self.outcome.code = error.code
        self.outcome.error = error.message
        self.outcome.transient = error.code not in _LASTING and (error.status >= 500 or error.status in (402, 429))
        self.outcome.outage = error.code in _OUTAGES
        if not self._streaming:
            self._set_status("failed")
            return self._reply(error.status, to_json(openai_error(error)))
        # The status line has been sent, so the failure is reported as an event of the stream.
        self._set_status("dropped")
        return [{"type": "http.response.body", "body": b"\n\ndata: " + to_json(openai_error(error)) + b"\n\n"}]

    def _reply(
        self, status: int, body: bytes, answer: ProviderAnswer | None = None, wait: float | None = None
    ) -> list[Message]:
        headers = {"content-type": "application/json", "content-length": str(len(body))}
        if wait is not None:
            headers["retry-after"] = f"{wait:g}"
        return [self._start(status, headers, answer), {"type": "http.response.body", "body": body}]

    def _start(self, status: int, headers: dict[str, str], answer: ProviderAnswer | None) -> Message:
        passed = answer.headers.items() if answer else ()
        kept = {name: value for name, value in passed if name in _PASSED_HEADERS or name.startswith("x-ratelimit-")}
        all_headers = {**headers, **kept, **self._fallback_headers, "x-request-id": self._request_id}
        pairs = [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in all_headers.items()]
        return {"type": "http.response.start", "status": status, "headers": pairs}


def _check_end(reason: object) -> None:
    """Raise ProviderFailed if an answer that nobody has seen was broken off by a failure."""
    if isinstance(reason, str) and stop_reason(reason) == FAILED:
        raise ProviderFailed(f"the provider broke off its answer: {reason[:MOST_QUOTED]}", code="provider_dropped")


def _header(text: str) -> str:
    """Return a text as one line of a header."""
    return " ".join(text.split()).encode("ascii", "replace").decode()


def _not_json(status: int, body: bytes) -> ProviderFailed:
    return ProviderFailed(f"the provider answered {status} without JSON: {quoted(body)}")
