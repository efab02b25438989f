"""The hot path's HTTP client against servers that behave and servers that do not."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent_common.net import HttpPool, TransportFault
from agent_testing import Drop, Fail, Garbage, Hang, Say, ScriptedProvider

COMPLETIONS = "/chat/completions"
ASK: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
WHOLE, STREAMED = json.dumps(ASK).encode(), json.dumps({**ASK, "stream": True}).encode()
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


@asynccontextmanager
async def pool(url: str, *, idle: float = 5, connect: float = 5) -> AsyncGenerator[HttpPool]:
    opened = HttpPool(url, {"accept": "*/*"}, read_timeout=idle, connect_timeout=connect)
    try:
        yield opened
    finally:
        await opened.close()


async def post(opened: HttpPool, body: bytes = WHOLE) -> tuple[int, bytes]:
    async with opened.request("POST", COMPLETIONS, body) as reply:
        return reply.status, await reply.body()


async def get(opened: HttpPool) -> tuple[int, bytes]:
    async with opened.request("GET", "/") as reply:
        return reply.status, await reply.body()


@asynccontextmanager
async def server(*replies: bytes, path: Path | None = None) -> AsyncGenerator[tuple[str, list[bytes]]]:
    """Answers the requests of a connection with the given bytes, then hangs up."""
    seen: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            for reply in replies:
                seen.append(await reader.readuntil(b"\r\n\r\n"))
                writer.write(reply)
                await writer.drain()
        finally:
            writer.close()

    if path is not None:
        async with await asyncio.start_unix_server(serve, path):
            yield f"http+unix://{str(path).replace('/', '%2F')}", seen
    else:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as opened:
            yield f"http://127.0.0.1:{opened.sockets[0].getsockname()[1]}", seen


async def test_replies_whole_and_streamed() -> None:
    with ScriptedProvider([Say("one"), Say("two words"), Fail(429, retry_after=3)]) as provider:
        async with pool(provider.url) as http:
            status, body = await post(http)
            assert (status, json.loads(body)["choices"][0]["message"]["content"]) == (200, "one")
            _, streamed = await post(http, STREAMED)
            assert streamed.count(b"data: ") == 5
            assert streamed.endswith(b"data: [DONE]\n\n")
            async with http.request("POST", COMPLETIONS, WHOLE) as limited:
                assert (limited.status, limited.headers["retry-after"]) == (429, "3")
        asked = provider.completions[0]
        assert (asked.headers["accept"], asked.headers["host"]) == ("*/*", provider.url.split("/")[2])


async def test_one_connection_serves_many_requests() -> None:
    async with server(OK, OK) as (url, seen), pool(url) as http:
        assert [await get(http) for _ in range(2)] == [(200, b"ok")] * 2
        assert len(seen) == 2


async def test_a_large_body_waits_for_its_reader_and_arrives_whole() -> None:
    pieces = tuple(f"{number:07} " for number in range(20_000))
    with ScriptedProvider([Say(pieces=pieces)]) as provider:
        async with pool(provider.url) as http, http.request("POST", COMPLETIONS, STREAMED) as reply:
            await asyncio.sleep(0.2)  # far more comes meanwhile than is held
            received = [piece async for piece in reply.pieces]
    events = [json.loads(line[6:]) for line in b"".join(received).split(b"\n\n") if line.startswith(b"data: {")]
    assert tuple(event["choices"][0]["delta"]["content"] for event in events[1:-1]) == pieces


async def test_a_connection_that_breaks_is_reported_and_not_used_again() -> None:
    with ScriptedProvider([Drop(), Drop(after=2), Garbage("{}", length=9), Say("fine")]) as provider:
        async with pool(provider.url) as http:
            for when in ("before a reply", "middle of a reply", "middle of a reply"):
                with pytest.raises(TransportFault, match=when):
                    await post(http, STREAMED)
            assert (await post(http))[0] == 200
        assert len(provider.completions) == 4


async def test_waiting_has_a_deadline_before_and_within_a_reply() -> None:
    with ScriptedProvider([Hang(), Hang(after=1)]) as provider:
        async with pool(provider.url, idle=0.05) as http:
            for _ in range(2):
                with pytest.raises(TransportFault, match="nothing came") as fault:
                    await post(http, STREAMED)
                assert fault.value.timed_out


async def test_a_reply_that_is_given_up_takes_its_connection_with_it() -> None:
    with ScriptedProvider([Hang(after=1), Say("next")]) as provider:
        async with pool(provider.url) as http:
            async with http.request("POST", COMPLETIONS, STREAMED) as reply:
                await anext(reply.pieces)
            assert (await post(http))[0] == 200


async def test_a_cancelled_request_takes_its_connection_with_it() -> None:
    with ScriptedProvider([Hang(), Say("next")]) as provider:
        async with pool(provider.url) as http:
            asking = asyncio.create_task(post(http))
            await asyncio.to_thread(provider.wait_for, 1)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            assert (await post(http))[0] == 200


async def test_a_server_that_is_not_there_is_no_wait() -> None:
    async with pool("http://127.0.0.1:9") as http:
        with pytest.raises(TransportFault, match="Connect call failed") as fault:
            await get(http)
        assert not fault.value.timed_out


async def test_connecting_has_a_deadline() -> None:
    async with pool("http://127.0.0.1:9", connect=0) as http:
        with pytest.raises(TransportFault, match="no connection within"):
            await get(http)


async def test_announcements_are_passed_over_and_a_body_may_end_with_its_connection() -> None:
    reply = b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\nall of it"
    async with server(reply) as (url, _), pool(url) as http, http.request("GET", "/") as found:
        assert (found.status, await found.body(), dict(found.headers)) == (
            200,
            b"all of it",
            {"content-type": "text/plain"},
        )


async def test_a_long_body_is_read_no_further_than_wanted() -> None:
    with ScriptedProvider([Say("word " * 50_000)]) as provider:
        async with pool(provider.url) as http, http.request("POST", COMPLETIONS, WHOLE) as reply:
            assert 10 <= len(await reply.body(10)) < 250_000


async def test_a_connection_that_the_server_closed_while_idle_is_not_used() -> None:
    async with server(b"HTTP/1.1 204 No Content\r\n\r\n") as (url, seen), pool(url) as http:
        for _ in range(2):
            assert await get(http) == (204, b"")
            await asyncio.sleep(0.05)
    assert len(seen) == 2


async def test_what_is_not_http_ends_the_connection() -> None:
    async with server(b"nonsense\r\n\r\n") as (url, _), pool(url) as http:
        with pytest.raises(TransportFault, match="not valid HTTP"):
            await get(http)


async def test_what_nobody_asked_for_ends_the_connection() -> None:
    async with server(OK + OK.replace(b"ok", b"no")) as (url, seen), pool(url) as http:
        assert [await get(http) for _ in range(2)] == [(200, b"ok")] * 2
    assert len(seen) == 2

    later = asyncio.Event()

    async def talkative(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OK)
        await later.wait()
        writer.write(b"and another thing")
        writer.close()

    opened = await asyncio.start_server(talkative, "127.0.0.1", 0)
    async with opened, pool(f"http://127.0.0.1:{opened.sockets[0].getsockname()[1]}") as http:
        assert await get(http) == (200, b"ok")
        later.set()
        await asyncio.sleep(0.05)
        assert await get(http) == (200, b"ok")


async def test_a_unix_socket(tmp_path: Path) -> None:
    async with server(OK, path=tmp_path / "s") as (url, seen), pool(url) as http:
        assert await get(http) == (200, b"ok")
    assert b"host: localhost\r\n" in seen[0]


async def test_a_server_that_comes_back_at_the_same_path_is_found(tmp_path: Path) -> None:
    path = tmp_path / "s"
    async with server(OK, OK, path=path) as (url, seen), pool(url) as http:
        assert [await get(http) for _ in range(2)] == [(200, b"ok")] * 2
        path.unlink()
        await asyncio.sleep(0.05)
        with pytest.raises(TransportFault, match=f"unix:{path}: there is no such socket"):
            await get(http)
        async with server(OK, OK, path=path) as (_, later):
            assert [await get(http) for _ in range(2)] == [(200, b"ok")] * 2
            assert len(later) == 2
    assert len(seen) == 2


async def test_a_peer_that_falls_silent_is_given_up_and_another_connection_is_made(tmp_path: Path) -> None:
    """As after a restore of a machine: the connection stands here, and nobody is at its other end."""
    came: list[asyncio.StreamWriter] = []

    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.append(writer)
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK)
        await reader.read()
        writer.close()

    async with await asyncio.start_unix_server(once, tmp_path / "s"):
        async with pool(f"http+unix://{str(tmp_path / 's').replace('/', '%2F')}", idle=0.2) as http:
            assert await get(http) == (200, b"ok")
            with pytest.raises(TransportFault, match=r"nothing came for 0\.2 s") as fault:
                await get(http)
            assert fault.value.timed_out
            assert await get(http) == (200, b"ok")
        assert len(came) == 2
        for writer in came:
            await writer.wait_closed()


async def test_a_server_without_a_known_certificate_is_refused(tmp_path: Path) -> None:
    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    opened = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    async with opened, pool(f"https://127.0.0.1:{opened.sockets[0].getsockname()[1]}") as http:
        with pytest.raises(TransportFault):
            await get(http)
