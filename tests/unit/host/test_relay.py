"""What the relay holds back of a stream while another model may still be asked."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest
from starlette.types import Message

from agent_common.net import ShareCounter
from agent_common.protocol import Pricing, Usage
from agent_host.proxy.calls.answer_memory import HeldAnswers
from agent_host.proxy.calls.fallbacks import Attempt
from agent_host.proxy.calls.relay import Relay
from agent_host.proxy.catalog.catalog import CatalogModel
from agent_host.proxy.providers import ProviderAnswer, ProviderCall
from agent_host.proxy.providers.http import ALIVE

TEXT = b'data: {"choices": [{"delta": {"content": "Hello"}, "finish_reason": "stop"}]}\n\n'
CALL = ProviderCall("chat", b"{}", streamed=True)


class Thinking:
    """A provider that shows only that it is alive, until its client has got something."""

    def __init__(self, got: anyio.Event) -> None:
        self._got = got

    @asynccontextmanager
    async def call(self, call: ProviderCall) -> AsyncGenerator[ProviderAnswer]:
        yield ProviderAnswer(200, {"content-type": "text/event-stream"}, self._body())

    async def close(self) -> None:
        pass

    async def _body(self) -> AsyncIterator[bytes]:
        while not self._got.is_set():
            yield ALIVE
            await anyio.sleep(0.05)
        yield TEXT


class Refusing:
    """A provider that answers with an error and these headers."""

    def __init__(self, headers: dict[str, str]) -> None:
        self._headers = headers

    @asynccontextmanager
    async def call(self, call: ProviderCall) -> AsyncGenerator[ProviderAnswer]:
        yield ProviderAnswer(503, self._headers, self._body())

    async def close(self) -> None:
        pass

    async def _body(self) -> AsyncIterator[bytes]:
        yield b'{"error": {"message": "no", "type": "api_error"}}'


@pytest.mark.parametrize("header", ["x-should-retry", "retry-after", "retry-after-ms"])
@pytest.mark.parametrize("replaceable", [True, False])
async def test_whether_and_when_to_ask_again_is_passed_on_and_keeps_nobody_from_a_fallback(
    header: str, replaceable: bool
) -> None:
    async def send(message: Message) -> None:
        raise AssertionError(message)

    relay = Relay(send, "1", HeldAnswers(ShareCounter(1024), "writer"))
    attempt = Attempt(CatalogModel("busy", "one", "busy"), CALL, hide_usage=False)
    relay.begin(attempt, None, replaceable=replaceable)
    value = "false" if header == "x-should-retry" else "1"
    begun, *_ = await relay.forward(Refusing({header: value}), CALL, lambda refusal: None)
    assert (header.encode(), value.encode()) in begun["headers"]
    assert relay.may_be_replaced == replaceable


@pytest.mark.parametrize("longest", [0.0, 0.2])
async def test_a_model_that_is_alive_but_says_nothing_is_not_held_back_for_ever(longest: float) -> None:
    sent, got = list[Message](), anyio.Event()

    async def send(message: Message) -> None:
        sent.append(message)
        got.set()

    relay = Relay(send, "1", HeldAnswers(ShareCounter(1024), "writer"), longest)
    relay.begin(Attempt(CatalogModel("quiet", "one", "quiet"), CALL, hide_usage=False), None, replaceable=True)
    with anyio.fail_after(60):
        last = await relay.forward(Thinking(got), CALL, lambda refusal: None)
    begun, *pieces = (*sent, *last)
    assert begun["status"] == 200
    assert b"".join(piece["body"] for piece in pieces).endswith(ALIVE + TEXT)
    assert (relay.outcome.status, relay.may_be_replaced) == ("complete", False)


PIECES = (
    b'{"choices":[{"delta":{"content":"Hel"},"finish_reason":null}],"usage":{"prompt_tokens":3,"completion_tokens":1}}',
    b'{"choices":[{"delta":{"content":"lo"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}',
)


class Written:
    """A provider that answers with this body."""

    def __init__(self, body: bytes) -> None:
        self._content = body

    @asynccontextmanager
    async def call(self, call: ProviderCall) -> AsyncGenerator[ProviderAnswer]:
        yield ProviderAnswer(200, {"content-type": "application/json"}, self._body())

    async def close(self) -> None:
        pass

    async def _body(self) -> AsyncIterator[bytes]:
        yield self._content


@pytest.mark.parametrize("body", [b"\n".join(PIECES), b"[" + b",".join(PIECES) + b"]", b"\n\n".join(PIECES) + b"\n"])
async def test_an_answer_in_several_pieces_is_counted_and_passed_whole(body: bytes) -> None:
    relay = Relay(_ignore, "1", HeldAnswers(ShareCounter(1024), "writer"))
    model = CatalogModel("m", "one", "m", pricing=Pricing(input=1_000_000, output=1_000_000))
    relay.begin(Attempt(model, CALL, hide_usage=False), None, replaceable=False)
    _, sent = await relay.forward(Written(body), CALL, lambda refusal: None)
    assert sent["body"] == body
    assert relay.outcome.usage == Usage(input=3, output=2, cost_usd=5.0)


async def _ignore(message: Message) -> None:
    pass
