"""Pass a provider's answer on to the client: streams as they arrive, other answers as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json, to_json  # noqa: TID251  reads at most INLINE_BYTES
from starlette.types import Message, Send

from agent_common.json_reader import INLINE_BYTES, JsonLimits, read_json
from agent_common.protocol import Pricing, Usage

from ...errors import ProviderFailed
from ...http import openai_error
from ..json_access import as_object
from ..ledger.ledger import CallStatus
from ..providers import Provider, ProviderAnswer, ProviderCall
from .held import HeldAnswers
from .usage import find_usage, read_usage
from .usage_filter import UsageFilter

_PASSED_HEADERS = frozenset({"retry-after", "retry-after-ms"})
_MOST_ANSWERED = 64 * 1024 * 1024
_ERROR_LIMITS = JsonLimits(max_bytes=INLINE_BYTES)
_QUOTED = 500  # characters of the provider's message that our error quotes


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


class Relay:
    """Relays one call. `forward` returns the last messages unsent, so that the call's row is recorded before them."""

    def __init__(
        self, send: Send, request_id: str, pricing: Pricing | None, held: HeldAnswers, *, hide_usage: bool
    ) -> None:
        self._send, self._held = send, held
        self._request_id = request_id
        self._pricing = pricing
        self._usage_filter = UsageFilter(pricing, hidden=hide_usage)
        self._streaming = False
        self._size = 0
        self.client_gone = False
        """Set once the client has disconnected. The rest of the answer is then read only for its usage."""
        self.outcome = RelayOutcome()

    @property
    def tokens(self) -> int:
        """Estimated number of tokens of the answer so far."""
        return self._usage_filter.tokens or self._size // 4

    async def forward(self, provider: Provider, call: ProviderCall) -> list[Message]:
        try:
            async with provider.call(call) as answer:
                self.outcome.http_status = answer.status
                if answer.status >= 300:
                    return await self._forward_error(answer)
                if answer.headers.get("content-type", "").startswith("text/event-stream"):
                    return await self._stream(answer)
                return await self._whole(answer)
        except ProviderFailed as error:
            return self._fail(error)
        finally:
            self.outcome.usage = self.outcome.usage or self._usage_filter.usage

    async def _stream(self, answer: ProviderAnswer) -> list[Message]:
        headers = {"content-type": "text/event-stream", "cache-control": "no-cache", "x-accel-buffering": "no"}
        await self._send(self._start(answer.status, headers, answer))
        self._streaming = True
        async for data in answer.body:
            if passed := self._usage_filter.feed(data):
                await self._send({"type": "http.response.body", "body": passed, "more_body": True})
        rest = self._usage_filter.finish()
        self._set_status("complete")
        return [{"type": "http.response.body", "body": rest}]

    async def _whole(self, answer: ProviderAnswer) -> list[Message]:
        body = await self._read(answer)
        self._size = len(body)
        if len(body) <= INLINE_BYTES:
            body = self._add_cost(body, answer.status)
        elif body.lstrip().startswith(b"{"):
            body = self._add_cost_unparsed(body)
        else:
            raise _not_json(answer.status, body)
        self._set_status("complete")
        return self._reply(answer.status, body, answer)

    def _add_cost(self, body: bytes, status: int) -> bytes:
        """Record the usage of an answer, and add its cost to the body."""
        try:
            reply: Any = from_json(body)
        except ValueError as error:
            raise _not_json(status, body) from error
        reported = as_object(as_object(reply).get("usage"))
        if reported:
            self.outcome.usage = read_usage(reported, self._pricing)
            if self._pricing is not None:
                reported["cost_usd"] = self.outcome.usage.cost_usd
                return to_json(reply)
        return body

    def _add_cost_unparsed(self, body: bytes) -> bytes:
        """Record usage and add the cost without parsing the body, because parsing takes a multiple of its memory."""
        reported, end = find_usage(body)
        if reported:
            self.outcome.usage = read_usage(reported, self._pricing)
            if self._pricing is not None and "cost_usd" not in reported:
                return b'%b,"cost_usd":%b%b' % (body[:end], to_json(self.outcome.usage.cost_usd), body[end:])
        return body

    async def _read(self, answer: ProviderAnswer) -> bytes:
        declared = answer.headers.get("content-length", "")
        counted = min(int(declared), _MOST_ANSWERED) if declared.isascii() and declared.isdigit() else 0
        self._held.reserve(counted)  # all at once, so that some of many concurrent answers succeed
        body = bytearray()
        async for data in answer.body:
            body += data
            if len(body) > _MOST_ANSWERED:
                raise ProviderFailed(f"the provider's answer is longer than {_MOST_ANSWERED} bytes")
            if len(body) > counted:
                self._held.reserve(len(body) - counted)
                counted = len(body)
        return bytes(body)

    def _set_status(self, status: CallStatus) -> None:
        """Set the status, unless the client has disconnected."""
        if not self.client_gone:
            self.outcome.status = status

    async def _forward_error(self, answer: ProviderAnswer) -> list[Message]:
        """Forward the provider's status and error body; a body that is not in OpenAI's shape is converted."""
        body = await self._read(answer)
        self.outcome.status = "failed"
        if answer.status < 400:
            return self._fail(ProviderFailed(f"the provider answered with a redirect ({answer.status})"))
        self.outcome.code, self.outcome.error = _error_code(body), _error_text(body)
        return self._reply(
            answer.status, body if _is_openai_error(body) else _as_openai_error(answer.status, body), answer
        )

    def _fail(self, error: ProviderFailed) -> list[Message]:
        self.outcome.code, self.outcome.error = error.code, error.message
        if not self._streaming:
            self._set_status("failed")
            return self._reply(error.status, to_json(openai_error(error)))
        # The status line has been sent, so the failure is reported as an event of the stream.
        self._set_status("dropped")
        return [{"type": "http.response.body", "body": b"\n\ndata: " + to_json(openai_error(error)) + b"\n\n"}]

    def _reply(self, status: int, body: bytes, answer: ProviderAnswer | None = None) -> list[Message]:
        headers = {"content-type": "application/json", "content-length": str(len(body))}
        return [self._start(status, headers, answer), {"type": "http.response.body", "body": body}]

    def _start(self, status: int, headers: dict[str, str], answer: ProviderAnswer | None) -> Message:
        passed = answer.headers.items() if answer else ()
        kept = {name: value for name, value in passed if name in _PASSED_HEADERS or name.startswith("x-ratelimit-")}
        all_headers = {**headers, **kept, "x-request-id": self._request_id}
        pairs = [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in all_headers.items()]
        return {"type": "http.response.start", "status": status, "headers": pairs}


def _not_json(status: int, body: bytes) -> ProviderFailed:
    return ProviderFailed(f"the provider answered {status} without JSON: {_quote(body)}")


def _error_code(body: bytes) -> str | None:
    """Return the error code in the provider's body, or None."""
    try:
        error = as_object(as_object(read_json(body, _ERROR_LIMITS)).get("error"))
    except ValueError:
        return None
    code = error.get("code") or error.get("type")
    return str(code)[:100] if code else None


def _is_openai_error(body: bytes) -> bool:
    return isinstance(_error_message(body), str)


def _error_message(body: bytes) -> Any:
    """Return the `message` of an error in OpenAI's shape, or None if the body has another shape."""
    try:
        return as_object(as_object(read_json(body, _ERROR_LIMITS)).get("error")).get("message")
    except ValueError:
        return None


def _error_text(body: bytes) -> str:
    message = _error_message(body)
    return message[:_QUOTED] if isinstance(message, str) else _quote(body)


def _as_openai_error(status: int, body: bytes) -> bytes:
    error = ProviderFailed(f"the provider answered {status}: {_quote(body)}")
    error.status = status
    return to_json(openai_error(error))


def _quote(body: bytes) -> str:
    return repr(body[: 4 * _QUOTED].decode("utf-8", "replace")[:_QUOTED])
