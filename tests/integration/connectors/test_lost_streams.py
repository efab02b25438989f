"""Streams of notifications that break: they are opened again, and what changed meanwhile is noticed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from itertools import count

import httpcore2
import httpx2
import pytest

from agent_runtime.connectors import Timeouts
from agent_runtime.connectors.transport import notification_stream
from agent_runtime.connectors.transport.connection_state import ConnectionState
from agent_runtime.connectors.transport.notification_stream import NotificationStream

from .conftest import Grow, until
from .odd_http import INITIALIZED, OK_TOOL, Handler, Reply, Sent, odd_server, usual

QUICK = Timeouts(first_wait=10, relist=0.05, backoff=(0.05,))
EVENTS = {"content-type": "text/event-stream"}
AT_ONCE = b"retry: 0\n\n"
LOST = {
    "cut off": Reply(200, AT_ONCE, {**EVENTS, "content-length": "1000"}, cut=True),
    "with an event that is too large": Reply(200, AT_ONCE + b"data: " + b"x" * 5_000_000 + b"\n\n", EVENTS),
    "busy": Reply(503, b"busy"),
    "no way to it": Reply(502, b"no backend"),
}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notification_stream, "PAUSES", (0.01,))


async def assert_later_comes(grow: Grow, answers: Handler) -> None:
    """The tool `later`, of which a notification tells, is found, and the server is ready."""
    async with odd_server(answers) as url:
        plant = grow(QUICK, it={"url": url})
        await plant.prepare()
        assert plant.state("it").error is None
        await until(lambda: "it_later" in plant.names)
        assert (plant.state("it").state, plant.state("it").error) == ("ready", None)
        await plant.connectors.close()


@pytest.mark.parametrize("lost", LOST.values(), ids=LOST.keys())
async def test_a_stream_that_is_lost_again_and_again_is_opened_again(grow: Grow, lost: Reply) -> None:
    """The tools have changed while there was none."""
    streams = count(1)
    opened = asyncio.Event()

    async def answers(sent: Sent) -> Reply:
        if sent.method == "GET":
            number = next(streams)
            if number <= 5:
                return Reply(200, AT_ONCE, {**EVENTS, "content-length": "1000"}, cut=True) if number == 1 else lost
            opened.set()
            return Reply(200, AT_ONCE, {**EVENTS, "content-length": "1000"})
        if sent.asks == "initialize":
            return Reply.result(sent, INITIALIZED, **{"mcp-session-id": "s"})
        later = [{**OK_TOOL, "name": "later"}] if opened.is_set() else []
        return usual(sent, list={"tools": [OK_TOOL, *later]})

    await assert_later_comes(grow, answers)


@pytest.mark.parametrize("status", [400, 404, 405, 501])
async def test_a_server_without_such_a_stream_is_not_asked_for_ever(grow: Grow, status: int) -> None:
    asked: list[Sent] = []

    async def answers(sent: Sent) -> Reply:
        if sent.method == "GET":
            asked.append(sent)
            return Reply(status)
        if sent.asks == "initialize":
            return Reply.result(sent, INITIALIZED, **{"mcp-session-id": "s"})
        return usual(sent)

    async with odd_server(answers) as url:
        plant = grow(QUICK, it={"url": url})
        await plant.prepare()
        await until(lambda: len(asked) == 2)
        await asyncio.sleep(0.2)
        assert len(asked) == 2
        await plant.connectors.close()


class Broken(httpx2.AsyncByteStream):
    """A body that ends with an error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b": hello\n\n"
        raise self._error


BREAKS = [
    httpcore2.ReadTimeout("it sends nothing"),
    httpcore2.ReadError("the connection broke"),
    httpcore2.RemoteProtocolError("incomplete"),
    httpx2.SSEError("too large"),
]


@pytest.mark.parametrize("error", BREAKS, ids=lambda error: type(error).__name__)
async def test_a_stream_that_breaks_or_is_silent_seems_to_end(error: Exception) -> None:
    """So the package opens it again, however often."""
    changed = asyncio.Event()
    state = ConnectionState(changed)
    stream = NotificationStream(state)

    async def send(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers=EVENTS, stream=Broken(error))

    first = await stream.open(httpx2.Request("GET", "http://a.example"), send)
    assert [piece async for piece in first.aiter_bytes()] == [b": hello\n\n"]
    assert not changed.is_set()
    again = httpx2.Request("GET", "http://a.example", headers={"last-event-id": "7"})
    assert stream.is_meant(again)
    await stream.open(again, send)
    assert changed.is_set()
    assert (state.take_gap(), state.take_gap()) == (True, False)


async def test_the_answer_to_a_call_that_is_resumed_is_another_stream() -> None:
    stream = NotificationStream(ConnectionState(asyncio.Event()))
    begin = httpx2.Request("GET", "http://a.example")
    resumed = httpx2.Request("GET", "http://a.example", headers={"last-event-id": "7"})

    async def send(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers=EVENTS, content=b"")

    assert stream.is_meant(begin)
    await asyncio.create_task(stream.open(begin, send))
    assert not stream.is_meant(resumed)


def subscribed(sent: Sent, *, end: bool = False) -> bytes:
    """The stream that answers `subscriptions/listen`: the acknowledgment, and perhaps its end."""
    about = {"_meta": {"io.modelcontextprotocol/subscriptionId": sent.message["id"]}}
    told = {"method": "notifications/subscriptions/acknowledged"}
    first = {"jsonrpc": "2.0", **told, "params": {"notifications": {"toolsListChanged": True}, **about}}
    last = [{"jsonrpc": "2.0", "id": sent.message["id"], "result": {"resultType": "complete"}}] if end else []
    return b"".join(b"data: " + json.dumps(one).encode() + b"\n\n" for one in (first, *last))


MODERN = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {"listChanged": True}}}


@pytest.mark.parametrize("kind", ["cut off", "ended", "busy", "no answer"])
async def test_a_subscription_that_is_lost_is_made_again(grow: Grow, kind: str) -> None:
    asked = count(1)
    opened = asyncio.Event()

    def lost(sent: Sent) -> Reply:
        match kind:
            case "cut off":
                return Reply(200, subscribed(sent), {**EVENTS, "content-length": "1000"}, cut=True)
            case "ended":
                return Reply(200, subscribed(sent, end=True), EVENTS)
            case "busy":
                return Reply(503, b"busy")
            case _:
                return Reply(200, b": hello\n\n", EVENTS)

    async def answers(sent: Sent) -> Reply:
        if sent.asks == "subscriptions/listen":
            if next(asked) <= 4:
                return lost(sent)
            opened.set()
            return Reply(200, subscribed(sent), {**EVENTS, "content-length": "100000"})
        later = [{**OK_TOOL, "name": "later"}] if opened.is_set() else []
        return usual(sent, discover=MODERN, list={"tools": [OK_TOOL, *later]})

    await assert_later_comes(grow, answers)


@pytest.mark.parametrize("code", [-32601, -32600, -32602])
async def test_a_server_without_subscriptions_is_asked_once(grow: Grow, code: int) -> None:
    asked: list[Sent] = []

    async def answers(sent: Sent) -> Reply:
        if sent.asks == "subscriptions/listen":
            asked.append(sent)
            return Reply.error(sent, code, "no")
        return usual(sent, discover=MODERN)

    async with odd_server(answers) as url:
        plant = grow(QUICK, it={"url": url})
        await plant.prepare()
        await until(lambda: asked)
        await asyncio.sleep(0.3)
        assert len(asked) == 1
        await plant.connectors.close()
