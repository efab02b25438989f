"""The addresses of the host: settings that name them, files that are left behind, and doors that come and go."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
import uvicorn

from agent_common.net import DirectUpstream, ForwardProxy, HttpPool, ProxyUpstream, TransportFault, Unix, WebClient
from agent_host.listening_sockets import HttpSide, ListeningSockets
from agent_runtime.errors import ToolFailure
from agent_testing import Hang, LiveProcess, Say, ScriptedProvider
from tests.e2e.live import eventually
from tests.unit.net.webs import LOOPBACK, Names, page, web

from .live import OPERATOR, PATIENCE, UP, Host, catalog, said

pytestmark = pytest.mark.slow

NAMES = Names({"a.test": "127.0.0.1"})


def url_of(path: Path) -> str:
    return f"http+unix://{quote(str(path), safe='')}"


def refused(**env: object) -> str:
    with LiveProcess(UP, {name: str(value) for name, value in env.items()}) as process:
        assert process.wait(PATIENCE) == 1
        return process.output()


def asking(path: Path, token: str | None = OPERATOR) -> httpx.Client:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    transport = httpx.HTTPTransport(uds=str(path))
    return httpx.Client(base_url="http://host", transport=transport, headers=headers, timeout=PATIENCE)


def test_the_host_on_a_unix_socket_beside_its_port(tmp_path: Path) -> None:
    path = tmp_path / "mesh.sock"
    with (
        ScriptedProvider(lambda _: Say("hello"), models=("big-1",)) as provider,
        Host(
            tmp_path / "data",
            MESH_MODELS=catalog(tmp_path, provider),
            UPSTREAM_KEY="k",
            MESH_LISTEN=f"unix:{path}, tcp://127.0.0.1:0",
        ) as host,
    ):
        assert host.url.startswith("http://127.0.0.1:")
        host.process.wait_for_output(f"agent-host listens on unix:{path} too")
        other = host.process.wait_for_output(r"agent-host listens on tcp://(127\.0\.0\.1:\d+) too")[1]
        assert httpx.get(f"http://{other}/healthz", trust_env=False).status_code == 200
        assert path.stat().st_mode & 0o777 == 0o660
        for token, status in ((host.token("a"), 200), ("wrong", 401), (None, 401)):
            with asking(path, token) as client:
                assert client.post("/v1/chat/completions", json=said("hi")).status_code == status
        with asking(path, host.token("a")) as client:
            assert client.get("/usage").status_code == 403
            assert client.post("/v1/chat/completions", json=said("x" * 8 * 2**20)).status_code == 200
        host.process.kill9()
        assert path.is_socket()
        host.start()
        with asking(path) as client:
            assert client.get("/usage").status_code == 200
    assert not path.exists()


def test_a_live_owner_keeps_its_socket(tmp_path: Path) -> None:
    path = tmp_path / "mesh.sock"
    only = {"MESH_HOST": "off", "MESH_LISTEN": f"unix:{path}"}
    with Host(tmp_path / "one", **only) as host:
        assert host.url == url_of(path)
        text = refused(MESH_DATA_DIR=tmp_path / "two", **only)
        assert text == f"agent-host: MESH_LISTEN: unix:{path} is in use; stop what listens there or set another\n"
        assert host.operator.get("/usage").status_code == 200


def test_a_runtime_of_the_fleet_reaches_a_host_without_a_port(tmp_path: Path) -> None:
    with (
        ScriptedProvider(lambda _: Say("hello"), models=("big-1",)) as provider,
        Host(
            tmp_path / "data",
            MESH_MODELS=catalog(tmp_path, provider),
            UPSTREAM_KEY="k",
            MESH_HOST="off",
            MESH_LISTEN=f"unix:{tmp_path / 'mesh.sock'}",
        ) as host,
    ):
        made = host.operator.post("/workspaces", json={"id": "writer"}).json()
        assert host.operator.post("/workspaces/writer/start").status_code == 200
        headers = {"authorization": f"Bearer {made['token']}"}
        with httpx.Client(base_url=made["url"], headers=headers, timeout=PATIENCE, trust_env=False) as client:
            assert client.post("/chat", json={"message": "hi"}).json()["response"] == "hello"


@pytest.mark.parametrize(
    ("env", "why"),
    [
        ({"MESH_LISTEN": "unix:mesh.sock"}, "MESH_LISTEN: must name a socket by its whole path"),
        ({"MESH_LISTEN": "http://127.0.0.1:1"}, "MESH_LISTEN: 'http://127.0.0.1:1' must be like tcp://127.0.0.1:8420"),
        ({"MESH_LISTEN": "vsock://x:1"}, "MESH_LISTEN: must name a context id and a port in numbers"),
        ({"MESH_LISTEN": "unix:/a,unix:/a"}, "MESH_LISTEN: unix:/a is named twice"),
        ({"MESH_HOST": "off"}, "MESH_LISTEN: must name an address when MESH_HOST is off, as in unix:/run/mesh.sock"),
        ({"MESH_EGRESS_HOST": "off"}, "MESH_EGRESS_LISTEN: must name an address when MESH_EGRESS_HOST is off"),
        (
            {"MESH_LISTEN": "unix:/nowhere/at/all"},
            "cannot listen on unix:/nowhere/at/all: there is no folder",
        ),
        ({"MESH_LISTEN": "unix:/etc/passwd"}, "unix:/etc/passwd: the file is not a socket; move it away"),
        ({"MESH_LISTEN": "vsock://77:8420"}, "MESH_LISTEN: cannot listen on vsock://77:8420: this machine has no"),
    ],
)
def test_a_wrong_address_stops_the_start(tmp_path: Path, env: dict[str, str], why: str) -> None:
    text = refused(MESH_DATA_DIR=tmp_path, MESH_PORT="0", **env)
    assert why in text
    assert "Traceback" not in text


def test_an_answer_under_way_on_a_socket_is_finished_when_the_host_stops(tmp_path: Path) -> None:
    path = tmp_path / "mesh.sock"
    with (
        ScriptedProvider([Hang(after=1)], models=("big-1",)) as provider,
        Host(
            tmp_path / "data",
            MESH_MODELS=catalog(tmp_path, provider),
            UPSTREAM_KEY="k",
            MESH_HOST="off",
            MESH_LISTEN=f"unix:{path}",
        ) as host,
        asking(path, host.token("a")) as client,
        client.stream("POST", "/v1/chat/completions", json=said("hi", stream=True)) as reply,
    ):
        pieces = reply.iter_bytes()
        assert next(pieces)
        os.kill(host.process.pid, signal.SIGTERM)
        eventually(lambda: not path.exists())  # nobody is taken in any more
        provider.release()
        b"".join(pieces)
        assert host.process.wait(PATIENCE) == 0


@asynccontextmanager
async def app(answer: Any) -> AsyncGenerator[ListeningSockets]:
    """The doors to an ASGI app in uvicorn's server."""
    config = uvicorn.Config(answer, http="httptools", ws="none", lifespan="off", log_config=None)
    config.load()
    server = uvicorn.Server(config)
    make: Any = config.http_protocol_class
    doors = ListeningSockets(HttpSide(lambda: make(config=config, server_state=server.server_state, app_state={})))
    try:
        yield doors
    finally:
        await doors.close_all()


async def get(http: HttpPool, path: str = "/") -> bytes:
    async with http.request("GET", path) as reply:
        assert reply.status == 200
        return await reply.body()


async def test_doors_come_and_go_while_others_are_used(tmp_path: Path) -> None:
    """One socket for each machine, made before it starts and taken away when it has ended."""
    go_on = asyncio.Event()

    async def answer(scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
        await send({"type": "http.response.body", "body": b"he", "more_body": True})
        if scope["path"] == "/slow":
            await go_on.wait()
        await send({"type": "http.response.body", "body": b"llo"})

    one, two = (Unix(f"{tmp_path}/{name}.vsock_8420") for name in ("one", "two"))
    async with app(answer) as doors:
        for endpoint in (one, two):
            assert await doors.open(endpoint) == endpoint
        assert doors.addresses == (one, two)
        with pytest.raises(OSError, match="something listens there already"):
            await doors.open(one)
        first, other = (HttpPool(url_of(Path(where.path)), {}, read_timeout=60) for where in (one, two))
        assert await get(first) == await get(other) == b"hello"
        async with asyncio.timeout(60):
            async with first.request("GET", "/slow") as begun:
                assert await anext(aiter(begun.pieces)) == b"he"
                await doors.close(one)
                go_on.set()
                assert [piece async for piece in begun.pieces] == [b"llo"]
        assert os.listdir(tmp_path) == ["two.vsock_8420"]
        await first.close()
        with pytest.raises(TransportFault, match="there is no such socket"):
            await get(first)
        await doors.close(one)
        assert await get(other) == b"hello"
        assert await doors.open(one) == one
        assert await get(first) == b"hello"
        for http in (first, other):
            await http.close()
    assert os.listdir(tmp_path) == []


async def test_what_hangs_behind_a_closed_door_is_hung_up_on(tmp_path: Path) -> None:
    async def never(_scope: Any, receive: Any, _send: Any) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    door = Unix(f"{tmp_path}/s")
    async with app(never) as doors:
        await doors.open(door)
        http = HttpPool(url_of(Path(door.path)), {}, read_timeout=60)
        hanging = asyncio.create_task(get(http))
        idle = socket.socket(socket.AF_UNIX)
        idle.setblocking(False)
        with idle:
            await asyncio.get_running_loop().sock_connect(idle, door.path)
            await asyncio.sleep(0.05)
            await doors.close(door)
            async with asyncio.timeout(60):
                assert await asyncio.get_running_loop().sock_recv(idle, 1) == b""
        async with asyncio.timeout(60):
            with pytest.raises(TransportFault, match="before a reply"):
                await hanging
        await http.close()


async def test_the_way_out_has_doors_that_come_and_go_too(tmp_path: Path) -> None:
    async def everywhere(_host: str, _port: int, _agent: str) -> str | None:
        return None

    door = Unix(f"{tmp_path}/s")
    way_out = WebClient(ProxyUpstream(url_of(Path(door.path)), rules=LOOPBACK))
    async with web({"/": page(b"hello")}) as site, ForwardProxy(DirectUpstream(LOOPBACK, NAMES), everywhere) as forward:
        doors = ListeningSockets(forward)
        await doors.open(door)
        assert (await way_out.fetch(site.url())).body == b"hello"
        await doors.close(door)
        with pytest.raises(ToolFailure, match=r"the forward proxy cannot be reached: unix:.*there is no such socket"):
            await way_out.fetch(site.url())
        await doors.open(door)
        assert (await way_out.fetch(site.url())).body == b"hello"
        await doors.close_all()
