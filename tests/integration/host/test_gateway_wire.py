"""The gateway on the wire, before agents that misbehave: a raw server takes the agent's place."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar, cast

import httpx
import pytest
import uvicorn
from starlette.applications import Starlette

from agent_common.clock import SystemClock
from agent_common.http import limited_http_protocol
from agent_common.net import Tcp, connect
from agent_host.access import AccessGuard, TokenScope, TokenStore, UserSet
from agent_host.database import HostDatabase, open_database
from agent_host.errors import Conflict
from agent_host.fleet import Fleet, RunningAgent
from agent_host.gateway import AgentGateway
from agent_host.http import problems

P = TypeVar("P", bound=asyncio.Protocol)
Answer = Callable[[bytes, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class Runtime:
    def __init__(self, port: int) -> None:
        self.port = port
        self.opening = asyncio.Event()
        """Connections are opened while it is set."""
        self.opening.set()
        self.waits = False

    async def connect(self, protocol: Callable[[], P]) -> P:
        self.waits = not self.opening.is_set()
        await self.opening.wait()
        return (await connect(protocol, Tcp("127.0.0.1", self.port)))[1]


class OneAgent:
    """The fleet as the gateway sees it, with one agent, `a`."""

    def __init__(self, agent: RunningAgent) -> None:
        self.agent: RunningAgent | None = agent

    async def running_agent(self, workspace_id: str) -> RunningAgent:
        if self.agent is None:
            raise Conflict(f"the workspace {workspace_id!r} is in quarantine", code="quarantined")
        return self.agent


@dataclass
class Wire:
    client: httpx.AsyncClient
    gateway: AgentGateway
    fleet: OneAgent
    guard: AccessGuard
    database: HostDatabase
    heads: list[bytes] = field(default_factory=list[bytes])
    """The head of each request that came to the agent, with its connection's number."""
    connections: int = 0
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the gateway has closed a connection to the agent."""


@asynccontextmanager
async def wire(answer: Answer, url: str = "sqlite://") -> AsyncGenerator[Wire]:
    """Serve the gateway before an agent that answers each request so. Scoped tokens need a database with a file."""
    found: Wire

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        found.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                found.heads.append(head)
                await answer(head, reader, writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            found.closed.set()
        finally:
            writer.close()

    database: HostDatabase = open_database(url)
    clock = SystemClock()
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as agent:
        port = agent.sockets[0].getsockname()[1]
        watch = asyncio.create_task(asyncio.Event().wait())
        fleet = OneAgent(RunningAgent(cast("Runtime", Runtime(port)), "agent-secret", watch))  # type: ignore[arg-type]
        guard = AccessGuard(TokenStore(database, clock), clock, "operator-secret")
        gateway = AgentGateway(guard, cast(Fleet, fleet))
        app = Starlette(routes=[gateway.route()])
        problems.install(cast("uvicorn._types.ASGIApp", app))  # type: ignore[arg-type]
        config = uvicorn.Config(
            app, port=0, http=limited_http_protocol(100), lifespan="off", log_config=None, timeout_graceful_shutdown=1
        )
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        base = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/workspaces/a/api"
        headers = {"authorization": "Bearer operator-secret"}
        async with httpx.AsyncClient(base_url=base, headers=headers, timeout=30, trust_env=False) as client:
            found = Wire(client, gateway, fleet, guard, database)
            yield found
        server.should_exit = True
        await serving
        gateway.close()
        watch.cancel()
    database.close()


async def until(met: Callable[[], bool]) -> None:
    """Wait until something has come about."""
    async with asyncio.timeout(60):
        while not met():
            await asyncio.sleep(0.01)


def always(reply: bytes, *, close: bool = False) -> Answer:
    async def answer(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        length = next(
            (int(line[16:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length: ")), 0
        )
        await reader.readexactly(length)
        writer.write(reply)
        if close:
            await writer.drain()
            writer.close()
            raise ConnectionResetError

    return answer


async def test_a_connection_is_used_again_and_the_agents_token_is_sent() -> None:
    async with wire(always(OK)) as seen:
        for _ in range(3):
            assert (await seen.client.get("/x%2Fy?q=%20")).text == "ok"
        assert (await seen.client.post("/z", content=b"body")).text == "ok"
    assert seen.connections == 1
    assert seen.heads[0].startswith(b"GET /x%2Fy?q=%20 HTTP/1.1\r\n")
    assert all(b"authorization: Bearer agent-secret" in head and b"operator-secret" not in head for head in seen.heads)


@pytest.mark.parametrize(
    "reply",
    [
        b"this is not HTTP\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * 100_000,
        b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 999 X\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.1 307 X\r\nlocation: /%2e%2e/%2e%2e/%2e%2e/tokens\r\ncontent-length: 0\r\n\r\n",
        b"",
    ],
)
async def test_an_answer_that_is_none_is_a_502(reply: bytes) -> None:
    async with wire(always(reply, close=True)) as seen:
        answer = await seen.client.get("/status")
    assert (answer.status_code, answer.json()["code"]) == (502, "agent_unreachable")
    assert "www-authenticate" not in answer.headers


async def test_an_answer_that_breaks_off_is_not_taken_for_a_whole_one() -> None:
    async with wire(always(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n", close=True)) as seen:
        with pytest.raises(httpx.RemoteProtocolError):
            await seen.client.get("/x")


async def test_a_kept_connection_that_the_agent_closed_repeats_only_what_may_be_repeated() -> None:
    async def once(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if b"/first" in head or (b"/again" in head and seen.connections > 1):
            await always(OK)(head, reader, writer)
        else:
            raise ConnectionResetError

    async with wire(once) as seen:
        assert (await seen.client.get("/first")).status_code == 200
        assert (await seen.client.get("/again")).status_code == 200
        assert (await seen.client.post("/first", content=b"1")).status_code == 200
        assert (await seen.client.post("/never", content=b"1")).status_code == 502
    assert sum(b"POST /never" in head for head in seen.heads) == 1


async def test_announcements_and_answers_without_a_body() -> None:
    async def answer(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if head.startswith(b"HEAD"):
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\netag: 1\r\n\r\n")
        elif b"/none" in head:
            writer.write(b"HTTP/1.1 204 No Content\r\ncontent-length: 5\r\n\r\n")
        else:
            writer.write(b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n" + OK)

    async with wire(answer) as seen:
        async with asyncio.timeout(60):
            head = await seen.client.head("/file")
            assert (head.headers["content-length"], head.headers["etag"]) == ("1000", "1")
            assert (await seen.client.get("/none")).status_code == 204
            hinted = await seen.client.get("/hinted")
    assert hinted.text == "ok"
    assert "link" not in hinted.headers


async def test_a_body_in_chunks_arrives_and_one_that_is_refused_early_is_answered() -> None:
    async def answer(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if b"/small" in head:
            assert b"transfer-encoding: chunked" in head.lower()
            body = await reader.readuntil(b"0\r\n\r\n")
            assert b"onetwo" in body.replace(b"\r\n", b"").replace(b"3", b"").replace(b"6", b"")
            writer.write(OK)
        else:
            writer.write(b"HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\nconnection: close\r\n\r\nbig")

    async def pieces() -> AsyncGenerator[bytes]:
        yield b"one"
        yield b"two"

    async with wire(answer) as seen:
        assert (await seen.client.post("/small", content=pieces())).status_code == 200
        refused = await seen.client.post("/large", content=b"x" * (4 << 20))
        assert (refused.status_code, refused.text) == (413, "big")


async def test_a_connection_that_owes_the_rest_of_a_body_carries_no_other_request() -> None:
    over = asyncio.Event()

    async def answer(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OK)
        if b"POST" in head:  # it is answered, the connection stays open, and the body is not read
            await over.wait()
            raise ConnectionResetError

    async with wire(answer) as seen:
        assert (await seen.client.post("/large", content=b"x" * (4 << 20))).text == "ok"
        assert (await seen.client.get("/other")).text == "ok"
        assert seen.connections == 2
        over.set()


async def test_a_stream_is_cut_when_its_agent_is_fenced() -> None:
    async def answer(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        writer.write(b"8\r\ndata: 1\n\r\n")
        await writer.drain()
        await reader.read()
        raise ConnectionResetError

    async with wire(answer) as seen:
        async with seen.client.stream("GET", "/events") as reply:
            lines = reply.aiter_lines()
            assert await anext(lines) == "data: 1"
            seen.fleet.agent = None
            seen.gateway.disconnect("a")
            with pytest.raises(httpx.RemoteProtocolError):
                await anext(lines)
        refused = await seen.client.get("/status")
        assert (refused.status_code, refused.json()["code"]) == (409, "quarantined")


async def silence(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the first request of a connection, and none after it."""
    if b"/first" in head:
        writer.write(OK)
    elif not await reader.read():
        raise ConnectionResetError


async def test_a_request_on_a_kept_connection_that_was_cut_is_not_sent_again() -> None:
    async with wire(silence) as seen:
        assert (await seen.client.get("/first")).text == "ok"
        waiting = asyncio.create_task(seen.client.get("/result?wait=60"))
        await until(lambda: len(seen.heads) == 2)
        seen.fleet.agent = None
        seen.gateway.disconnect("a")
        refused = await waiting
        assert (refused.status_code, refused.json()["code"]) == (409, "quarantined")
        assert len(seen.heads) == 2


async def test_a_request_whose_token_is_revoked_is_not_sent_again(tmp_path: Path) -> None:
    scope = TokenScope(UserSet.of("ann"), frozenset({"a"}))
    async with wire(silence, f"sqlite:///{tmp_path / 'mesh.db'}") as seen:
        token, info = await seen.database.run(lambda rows: seen.guard.store.mint_scoped_in(rows, scope, None))
        headers = {"authorization": f"Bearer {token}"}
        assert (await seen.client.get("/first", headers=headers)).text == "ok"
        waiting = asyncio.create_task(seen.client.get("/result?wait=60", headers=headers))
        await until(lambda: len(seen.heads) == 2)
        await seen.database.run(lambda rows: seen.guard.store.revoke_one_in(rows, info.id))
        seen.guard.notify_revoked(info.owner)
        refused = await waiting
        assert refused.status_code == 401
        assert len(seen.heads) == 2


async def test_a_connection_that_is_being_opened_is_cut_too() -> None:
    async with wire(always(OK)) as seen:
        runtime = cast(Runtime, seen.fleet.agent.runtime) if seen.fleet.agent else Runtime(0)
        runtime.opening.clear()
        waiting = asyncio.create_task(seen.client.get("/status"))
        await until(lambda: runtime.waits)
        seen.fleet.agent = None
        seen.gateway.disconnect("a")
        runtime.opening.set()
        refused = await waiting
        assert (refused.status_code, refused.json()["code"]) == (409, "quarantined")
        assert seen.heads == []


async def test_a_caller_who_goes_away_leaves_no_connection_behind() -> None:
    async def answer(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n")
        await writer.drain()
        if not await reader.read():
            raise ConnectionResetError

    async with wire(answer) as seen:
        async with seen.client.stream("GET", "/events") as reply:
            assert await anext(reply.aiter_raw()) == b"ok"
        async with asyncio.timeout(60):
            await seen.closed.wait()
