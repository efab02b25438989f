"""Search through the host: what is asked, and what its failures mean to a tool."""

from __future__ import annotations

import asyncio
import json

import pytest

from agent_common.protocol import SearchHit
from agent_runtime.errors import MeshUnavailable, ToolFailure
from agent_runtime.mesh import MeshSearch
from tests.unit.net.webs import Handler, page, web

HIT = {"title": "One", "url": "https://example.org/", "snippet": "first"}
ROUTE = "/v1/search"


def answer(body: object, status: str = "200 OK") -> bytes:
    return page(json.dumps(body).encode(), status, content_type="application/json")


async def ask(reply: bytes | Handler, *, seconds: float = 5, most: int = 8) -> list[SearchHit]:
    async with web({ROUTE: reply}) as host:
        search = MeshSearch(f"http://127.0.0.1:{host.port}", {"authorization": "Bearer t"}, seconds)
        try:
            return list(await search.search("what is it", most, "ses_1"))
        finally:
            await search.close()


async def test_what_is_asked_and_found() -> None:
    bodies: list[bytes] = []

    async def host(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        bodies.append(await reader.read(1000))
        writer.write(answer({"results": [{**HIT, "rank": 1}] * 3, "more": True}))
        await writer.drain()

    assert await ask(host, most=2) == [SearchHit(**HIT)] * 2
    assert json.loads(bodies[0]) == {"query": "what is it", "max_results": 2, "session": "ses_1"}


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        ("429 Too Many", "denied"),
        ("422 Unprocessable", "invalid"),
        ("502 Bad Gateway", "backend"),
        ("504 Late", "timeout"),
        ("500 Oh", "backend"),
    ],
)
async def test_refusals(status: str, kind: str) -> None:
    with pytest.raises(ToolFailure, match="the search failed: because") as failure:
        await ask(answer({"error": {"message": "because", "code": "x"}}, status))
    assert failure.value.kind == kind


@pytest.mark.parametrize("status", ["404 Not Found", "503 Off", "401 Who", "405 Not Allowed"])
async def test_a_host_without_search(status: str) -> None:
    with pytest.raises(MeshUnavailable, match="does not offer search"):
        await ask(answer({"detail": "no"}, status))


async def test_a_host_that_is_not_there_or_says_something_else() -> None:
    gone = MeshSearch("http://127.0.0.1:1", {})
    with pytest.raises(MeshUnavailable, match="cannot be reached"):
        await gone.search("x", 8, "s")
    for body in ({"results": [{}]}, [], {"results": None}):
        with pytest.raises(ToolFailure, match="something else"):
            await ask(answer(body))


async def test_a_host_that_hangs_is_given_up() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n")
        while True:
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0.01)

    for host in (silent, drip):
        with pytest.raises(ToolFailure, match=r"longer than 0\.1 s") as late:
            await ask(host, seconds=0.1)
        assert late.value.kind == "timeout"
