"""Streams over connections that break: whether they are taken up again, how soon, and for how long."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from typing import Any

import httpx2
import pytest

from agent_client import Agent, ApiError, Approval, Mesh, NotRunning

AWAY = 0.2
"""Seconds after which a server is given up here."""
Step = str | float
"""Text of a stream, or seconds without any."""


class Server(httpx2.AsyncBaseTransport):
    """Answers each connection with the next of these streams, which then ends; the last one for ever."""

    def __init__(self, *streams: tuple[Step, ...] | httpx2.Response) -> None:
        self.requests: list[httpx2.Request] = []
        self._streams = streams

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        stream = self._streams[min(len(self.requests), len(self._streams) - 1)]
        self.requests.append(request)
        if isinstance(stream, httpx2.Response):
            return stream
        return httpx2.Response(200, headers={"Content-Type": "text/event-stream"}, content=_sent(stream))


async def _sent(steps: tuple[Step, ...]) -> AsyncIterator[bytes]:
    for step in steps:
        if isinstance(step, str):
            yield step.encode()
            continue
        await asyncio.sleep(step)


CHAT = 'data: {"type":"start","messageId":"m","messageMetadata":{"session_id":"s","message_id":"m"}}\n\n'
CHAT_END = 'data: {"type":"finish","finishReason":"stop"}\n\ndata: [DONE]\n\n'


async def test_a_server_that_was_there_in_between_is_not_given_up() -> None:
    server = Server((CHAT,), (CHAT, 2 * AWAY), (CHAT, 2 * AWAY), (CHAT, CHAT_END))
    async with Agent("http://server", transport=server) as agent, agent.chat("hello", reconnect=AWAY) as turn:
        assert [event.type async for event in turn] == ["started", "finished"]
    assert len(server.requests) == 4


CALL = 'data: {"type":"tool-input-available","toolCallId":"c","toolName":"bash","input":{}}\n\n'
ABOUT = 'data: {"type":"data-approval","id":"a","data":{"reason":"a rule","code":"K7","always":[{"pattern":"*"}]}}\n\n'
REQUEST = 'data: {"type":"tool-approval-request","approvalId":"a","toolCallId":"c"}\n\n'


@pytest.mark.parametrize(
    ("first", "again", "codes"),
    [
        (ABOUT + REQUEST, ABOUT + REQUEST, ["K7"]),
        (ABOUT + REQUEST, REQUEST + ABOUT, ["K7"]),
        (REQUEST + ABOUT, REQUEST + ABOUT, [None, "K7"]),
        (REQUEST, ABOUT + REQUEST, [None, "K7"]),
        (REQUEST + ABOUT, ABOUT, [None, "K7"]),
        (REQUEST, ABOUT, [None]),
    ],
)
async def test_an_approval_is_whole_in_either_order(first: str, again: str, codes: list[str | None]) -> None:
    """One that was answered before a reconnection is not asked again: the stream has its request no more."""
    server = Server((CHAT, CALL, first), (CHAT, CALL, again, CHAT_END))
    async with Agent("http://server", transport=server) as agent, agent.chat("hello", reconnect=AWAY) as turn:
        approvals = [event async for event in turn if isinstance(event, Approval)]
    assert [one.code for one in approvals] == codes
    whole = [one for one in approvals if one.code]
    assert all((one.reason, one.always, one.tool) == ("a rule", [{"pattern": "*"}], "bash") for one in whole)


NOT_RUNNING = httpx2.Response(
    409,
    json={"title": "Conflict", "status": 409, "code": "not_running", "detail": "it does not run", "instance": "/"},
)


async def test_an_agent_that_its_host_starts_again_is_waited_for() -> None:
    """Its workspace does not run meanwhile. One that has never answered is refused at once."""
    server = Server((CHAT,), NOT_RUNNING, NOT_RUNNING, (CHAT, CHAT_END))
    async with Agent("http://server", transport=server) as agent, agent.chat("hello") as turn:
        assert [event.type async for event in turn] == ["started", "finished"]
    assert len(server.requests) == 4
    never = Server(NOT_RUNNING)
    async with Agent("http://server", transport=never) as agent:
        with pytest.raises(NotRunning):
            await agent.ask("hello")
    assert len(never.requests) == 1
    gone = Server((CHAT,), NOT_RUNNING)
    async with Agent("http://server", transport=gone) as agent:
        with pytest.raises(NotRunning):
            await agent.chat("hello", reconnect=AWAY).reply()


async def test_a_result_of_work_may_be_large() -> None:
    record: dict[str, Any] = {
        "request_id": "w",
        "workspace": "a",
        "status": "resulted",
        "attempts": 1,
        "submitted_at": 1,
    }
    record["result"] = {"request_id": "w", "status": "completed", "content": "x" * (2 << 20), "audit_ref": "a"}
    record["result"]["completed_at"] = "2030-01-01T00:00:00Z"
    server = Server((f"event: result\ndata: {json.dumps(record)}\n\n",))
    async with Mesh("http://server", transport=server) as mesh:
        ended = await mesh.work.wait("w")
    assert ended.result is not None
    assert len(ended.result.content or "") == 2 << 20


async def test_an_empty_file_has_no_bytes_in_any_range() -> None:
    refusal = {"title": "No", "status": 416, "code": "out_of_range", "detail": "it has 0 bytes", "instance": "/"}
    server = Server(httpx2.Response(416, json=refusal))
    async with Agent("http://server", transport=server) as agent:
        assert await agent.files.read("empty", 0, 10) == b""
        with pytest.raises(ApiError, match="out_of_range"):
            await agent.files.read("empty", 1, 10)


async def test_a_position_is_no_progress() -> None:
    """A server whose streams all end after their first bytes is not asked without a pause."""
    server = Server((": watching\nid: 7\n\n",))
    async with Agent("http://server", transport=server) as agent:
        with suppress(TimeoutError):
            async with asyncio.timeout(1), aclosing(agent.events()) as events:
                await anext(events)
    assert len(server.requests) <= 10
    assert server.requests[-1].headers["Last-Event-ID"] == "7"


async def test_the_first_poll_for_a_result_is_answered_at_once() -> None:
    """It shows that the address is right: a server that goes away after it is waited for."""
    waiting = httpx2.Response(202, json={"task_id": "t", "status": "running"})
    result = {"task_id": "t", "status": "complete", "result": {"text": "x"}}
    record = {"workspace": "a", "task_id": "t", "user": "ann", "result": result, "finished_at": 1, "recorded_at": 1}
    guest = Server(waiting, waiting, httpx2.Response(200, json=result))
    host = Server(waiting, waiting, httpx2.Response(200, json=record))
    async with Agent("http://server", transport=guest) as agent:
        assert await agent.task("t").result() == {"text": "x"}
    async with Mesh("http://server", transport=host) as mesh:
        await mesh.result("a", "t")
    for server in (guest, host):
        waits = [float(request.url.params["wait"]) for request in server.requests]
        assert waits[0] < 1 < waits[1] == waits[2]
