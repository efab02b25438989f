"""The host's way out: who may use it, where to, and what is written down about that."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs

from agent_common.net import DirectUpstream, HostPatterns, WebClient, bind_tcp_socket
from agent_common.telemetry import CONNECTION_LINES
from agent_host.access import AccessGuard, TokenStore
from agent_host.database import open_database
from agent_host.egress import egress_proxy
from agent_host.settings import load_settings
from agent_runtime.errors import StartError, ToolFailure
from agent_testing import ManualClock
from tests.ports import free_port
from tests.unit.net.webs import LOOPBACK, Names, page, web

from .live import Host

NAMES = {"a.test": "127.0.0.1", "deep.b.test": "127.0.0.1", "b.test": "127.0.0.1", "inner.a.test": "10.0.0.1"}


@asynccontextmanager
async def door(folder: Path, *patterns: str) -> AsyncGenerator[tuple[str, str]]:
    """The URL of a way out whose names lead here, and the token of `writer`."""
    with closing(open_database(f"sqlite:///{folder / 'mesh.db'}")) as database:
        tokens = TokenStore(database, ManualClock())
        token = await tokens.mint("writer", "manual")
        bound = bind_tcp_socket("127.0.0.1", 0)
        bound.listen()
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        way_out = DirectUpstream(LOOPBACK, Names(NAMES))
        async with egress_proxy(
            AccessGuard(tokens, ManualClock()), HostPatterns.from_patterns(patterns), upstream=way_out
        ) as opened:
            await opened.listen(bound)
            yield url, token


async def test_an_agent_reaches_the_hosts_on_the_list_and_no_others(tmp_path: Path) -> None:
    async with web({"/": page(b"hello")}) as site, door(tmp_path, "a.test", "*.b.test") as (url, token):
        agent = WebClient.via_proxy(url, token)
        for host in ("a.test", "deep.b.test"):
            assert (await agent.fetch(site.url(host=host))).body == b"hello"
        for host in ("b.test", "other.test", "inner.a.test"):
            with pytest.raises(ToolFailure, match="MESH_EGRESS_HOSTS") as refused:
                await agent.fetch(site.url(host=host))
            assert refused.value.kind == "denied"
        with pytest.raises(ToolFailure, match="needs a token"):
            await WebClient.via_proxy(url, "mesh_other").fetch(site.url())


async def test_the_list_does_not_widen_what_is_public(tmp_path: Path) -> None:
    async with web({}) as site, door(tmp_path, "*") as (url, token):
        with pytest.raises(ToolFailure, match=r"inner\.a\.test leads to 10\.0\.0\.1, which is a private network"):
            await WebClient.via_proxy(url, token).fetch(site.url(host="inner.a.test"))


async def test_tunnels_of_an_agent_end_when_its_tokens_are_revoked(tmp_path: Path) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1024):
                writer.write(data)
        finally:
            writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    target = f"a.test:{server.sockets[0].getsockname()[1]}"
    with closing(open_database(f"sqlite:///{tmp_path / 'mesh.db'}")) as database:
        tokens = TokenStore(database, ManualClock())
        guard, way_out = AccessGuard(tokens, ManualClock()), DirectUpstream(LOOPBACK, Names(NAMES))
        bound = bind_tcp_socket("127.0.0.1", 0)
        bound.listen()
        async with egress_proxy(guard, HostPatterns.from_patterns(("*",)), upstream=way_out) as opened:
            guard.add_revocation_callback(opened.disconnect)
            port = bound.getsockname()[1]
            await opened.listen(bound)
            tunnels = [await tunnel(port, target, await tokens.mint(name, "manual")) for name in ("writer", "other")]
            await database.run(lambda connection: guard.revoke_in(connection, "writer"))
            guard.notify_revoked("writer")
            async with asyncio.timeout(60):
                assert await tunnels[0][0].read(1) == b"", "it is over"
            tunnels[1][1].write(b"x")
            assert await tunnels[1][0].read(1) == b"x", "that of another agent goes on"
            for _, writer in tunnels:
                writer.close()
    server.close()


async def test_an_agent_that_opens_connections_fills_no_log(tmp_path: Path) -> None:
    """Let through, refused, or without an answer: each kind has its lines, and those of another agent are written."""

    async def connect(url: str, target: str, token: str) -> int:
        reader, writer = await asyncio.open_connection(*url.removeprefix("http://").split(":"))
        writer.write(f"CONNECT {target} HTTP/1.1\r\nProxy-Authorization: Bearer {token}\r\n\r\n".encode())
        try:
            return int((await reader.readuntil(b"\r\n\r\n")).split()[1])
        finally:
            writer.close()

    many = CONNECTION_LINES + 20
    closed = free_port()
    with closing(open_database(f"sqlite:///{tmp_path / 'mesh.db'}")) as database, capture_logs() as logged:
        tokens = TokenStore(database, ManualClock())
        writer, other = [await tokens.mint(name, "manual") for name in ("writer", "other")]
        guard, way_out = AccessGuard(tokens, ManualClock()), DirectUpstream(LOOPBACK, Names(NAMES))
        bound = bind_tcp_socket("127.0.0.1", 0)
        bound.listen()
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        async with (
            web({}) as site,
            egress_proxy(guard, HostPatterns.from_patterns(("a.test",)), upstream=way_out) as opened,
        ):
            await opened.listen(bound)
            for _ in range(many):
                assert await connect(url, f"a.test:{site.port}", writer) == 200
                assert await connect(url, f"a.test:{closed}", writer) == 502
                assert await connect(url, "x.test:443", writer) == 403
            assert await connect(url, "x.test:443", other) == 403
    lines = Counter((line["agent"], line["status"]) for line in logged if line["event"] == "egress")
    assert lines == {
        **dict.fromkeys([("writer", 200), ("writer", 502), ("writer", 403)], CONNECTION_LINES),
        ("other", 403): 1,
    }


async def tunnel(port: int, target: str, token: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"CONNECT {target} HTTP/1.1\r\nProxy-Authorization: Bearer {token}\r\n\r\n".encode())
    assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
    writer.write(b"hello")
    assert await reader.readexactly(5) == b"hello"
    return reader, writer


def lines(host: Host) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in host.process.output().splitlines() if line.startswith("{")]
    return [line for line in found if line["event"] == "egress"]


@pytest.mark.slow
def test_the_host_as_it_is_started(tmp_path: Path) -> None:
    settings = {"MESH_EGRESS_HOSTS": "*.example.invalid, 127.0.0.1", "MESH_EGRESS_PORT": 0}
    with Host(tmp_path, **settings) as host:
        url = host.process.wait_for_output(r"agents go out through (http://\S+) to \*\.example\.invalid")[1]
        token = host.token("writer")

        def ask(target: str, password: str | None) -> httpx.Response:
            proxy = httpx.Proxy(url, auth=("agent", password) if password else None)
            with httpx.Client(proxy=proxy, trust_env=False, timeout=60) as client:
                return client.get(target)

        assert ask("http://a.example.invalid/", None).status_code == 407
        assert ask("http://example.invalid/", token).status_code == 403
        itself = ask(host.url, token)
        assert (itself.status_code, "this machine itself" in itself.text) == (403, True)
        assert ask("http://a.example.invalid/", token).status_code == 502
        assert host.token_command("writer", "--revoke") == "revoked: 1"
        host.process.wait_for_output(r'"verdict": "failed"')
        seen = lines(host)
        assert token not in host.process.output()
    assert [(line["agent"], line["host"], line["verdict"], line["status"]) for line in seen] == [
        (None, "a.example.invalid", "refused", 407),
        ("writer", "example.invalid", "refused", 403),
        ("writer", "127.0.0.1", "refused", 403),
        ("writer", "a.example.invalid", "failed", 502),
    ]
    assert {"port", "sent", "received", "seconds", "reason"} <= seen[0].keys()


def test_wrong_settings_are_named() -> None:
    with pytest.raises(StartError, match=r"MESH_EGRESS_HOSTS: 'a\*' is not a host; write "):
        load_settings(egress_hosts="b.test, a*")
