"""Answers of a server that means harm: they are bounded, not decoded, and become errors of the client."""

from __future__ import annotations

import json
import zlib
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from agent_client import Agent, ApiError, ClientError, Mesh, NotFound, UnexpectedReply
from agent_client.http import Call, Connection

MOST = 1 << 20


class Pouring(httpx2.AsyncByteStream):
    """A body without an end."""

    def __init__(self) -> None:
        self.poured = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            self.poured += 1 << 16
            yield bytes(1 << 16)


def to(answer: httpx2.Response) -> Connection:
    return Connection("http://host", "token", max_answer=MOST, transport=httpx2.MockTransport(lambda _: answer))


@pytest.mark.parametrize("status", [200, 400])
async def test_a_body_without_an_end_is_refused(status: int) -> None:
    body = Pouring()
    with pytest.raises(UnexpectedReply, match="more than 1048576 bytes"):
        await to(httpx2.Response(status, stream=body)).send(Call("POST", "/x"))
    assert body.poured <= 2 * MOST


@pytest.mark.parametrize("status", [200, 400])
async def test_an_encoded_answer_is_refused(status: int) -> None:
    asked: list[str] = []
    encoder = zlib.compressobj(9, zlib.DEFLATED, 31)
    body = encoder.compress(bytes(1 << 24)) + encoder.flush()

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.headers["accept-encoding"])
        return httpx2.Response(status, headers={"content-encoding": "gzip"}, stream=httpx2.ByteStream(body))

    connection = Connection("http://host", "token", transport=httpx2.MockTransport(answer))
    with pytest.raises(UnexpectedReply, match="the encoding 'gzip'"):
        await connection.send(Call("POST", "/x"))
    with pytest.raises(UnexpectedReply, match="the encoding 'gzip'"):
        async with connection.stream(Call("GET", "/x")):
            pass
    assert asked == ["identity", "identity"]


async def test_a_redirection_is_no_success() -> None:
    with pytest.raises(UnexpectedReply, match="answered HTTP 302"):
        await to(httpx2.Response(302, headers={"location": "/y"})).send(Call("DELETE", "/x"))


@pytest.mark.parametrize("odd", [[1], {}, True, 10**400, "NaN", "inf"])
async def test_an_odd_time_to_wait_is_none(odd: Any) -> None:
    problem = {"title": "T", "status": 404, "detail": "why", "instance": "/x", "code": "unknown", "retry_after": odd}
    body = json.dumps(problem).encode()
    with pytest.raises(NotFound) as caught:
        await to(httpx2.Response(404, content=body)).send(Call("POST", "/x"))
    assert caught.value.retry_after in (None, 1.0)


async def test_a_file_without_a_length_is_refused() -> None:
    answer = httpx2.Response(200, headers={"etag": '"1"'}, stream=Pouring())
    async with Mesh("http://host", transport=httpx2.MockTransport(lambda _: answer)) as mesh:
        with pytest.raises(UnexpectedReply, match="how long"):
            await mesh.agent("a").files.read("x")


async def test_more_of_a_file_than_was_asked_for_is_refused() -> None:
    answer = httpx2.Response(200, headers={"etag": '"1"'}, content=bytes(100))
    async with Mesh("http://host", transport=httpx2.MockTransport(lambda _: answer)) as mesh:
        with pytest.raises(UnexpectedReply, match="more bytes"):
            await mesh.agent("a").files.read("x", end=99)
        assert len(await mesh.agent("a").files.read("x", end=100)) == 100


async def test_a_list_that_begins_again_ends() -> None:
    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, json={"pending": [], "next": "again"})

    async with Mesh("http://host", transport=httpx2.MockTransport(answer)) as mesh:
        with pytest.raises(UnexpectedReply, match="position at which it began"):
            await mesh.pending()


@pytest.mark.parametrize(
    "chunk",
    [
        {"type": "data-queue", "data": {}},
        {"type": "data-queue", "data": [1]},
        {"type": "data-queue", "data": {"position": [1]}},
        {"type": "finish", "messageMetadata": {"outcome": [1]}},
        {"type": "finish", "messageMetadata": {"usage": 7}},
    ],
)
async def test_an_odd_chunk_is_left_out_or_an_error_of_the_client(chunk: dict[str, Any]) -> None:
    lines = f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n"
    answer = httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=lines)
    agent = Agent("http://agent", transport=httpx2.MockTransport(lambda _: answer))
    with pytest.raises(ClientError) as caught:
        await agent.ask("hello")
    assert not isinstance(caught.value, ApiError)
    await agent.aclose()
