"""Real MCP servers over streamable HTTP."""

from __future__ import annotations

import asyncio
import json
import logging
import stat
import sys
from base64 import b64encode
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from agent_common.net import AddressPolicy, DirectUpstream, ForwardProxy, Unix, http_url, listen_at
from agent_runtime.connectors import Timeouts
from agent_runtime.connectors.transport.refusals import NO_CREDENTIALS, WRONG_CREDENTIALS
from agent_testing import LiveProcess
from tests.ports import free_port
from tests.unit.net.webs import LOOPBACK, Names

from .conftest import HERE, Grow, until, web_demo_at

pytestmark = pytest.mark.slow

ONCE = Timeouts(first_wait=10, backoff=(30.0,))


class Guarded:
    """The stand-in, from outside."""

    def __init__(self, url: str) -> None:
        self.url = url

    def counts(self) -> Any:
        return httpx.get(f"{self.url}/counts", trust_env=False).json()

    def set(self, **state: Any) -> None:
        httpx.post(f"{self.url}/set", json=state, trust_env=False).raise_for_status()

    def reset(self) -> None:
        httpx.post(f"{self.url}/reset", trust_env=False).raise_for_status()

    def server(self, **more: Any) -> dict[str, Any]:
        oauth = {"token_url": f"{self.url}/token", "client_id": "me", "refresh_token": "${REFRESH}"}
        return {"url": f"{self.url}/mcp", "oauth": oauth, **more}


@pytest.fixture(scope="module")
def stand_in(processes: ExitStack) -> Guarded:
    url = f"http://127.0.0.1:{free_port()}"
    argv = [sys.executable, HERE / "stand_in.py", url.rpartition(":")[2]]
    processes.enter_context(LiveProcess(argv, ready_url=f"{url}/counts"))
    return Guarded(url)


@pytest.fixture
def guarded(stand_in: Guarded) -> Guarded:
    """As if it had just been started; that takes seconds."""
    stand_in.reset()
    return stand_in


async def test_its_tools_are_tools(grow: Grow, web_demo: str) -> None:
    plant = grow(web={"url": web_demo})
    assert plant.state("web").state == "idle"
    await plant.prepare()
    assert plant.state("web").error is None
    before = int(await plant.value("web_count"))
    assert await plant.value("web_echo", text="hello") == "hello"
    assert "is required" in await plant.error("web_echo")
    assert await plant.value("web_count") == str(before + 1)
    assert "no luck" in await plant.error("web_fail", why="no luck")
    assert (await plant.call("web_big", size=500_000)).metadata["truncated"]
    assert "limit" in await plant.error("web_big", size=8_000_000)
    assert await plant.value("web_echo", text="still there") == "still there"


async def test_new_tools_are_there_at_the_next_turn(grow: Grow, web_demo: str) -> None:
    plant = grow(web={"url": web_demo})
    await plant.prepare()
    await plant.value("web_grow", name="later")
    await until(lambda: "web_later" in plant.names)
    assert await plant.value("web_later") == "later"


async def test_nobody_there(grow: Grow) -> None:
    plant = grow(ONCE, web={"url": f"http://127.0.0.1:{free_port()}/mcp?key=secret-in-the-query"})
    await plant.prepare()
    assert plant.state("web").state == "waiting"
    assert "refuses a connection" in plant.state("web").error
    assert "secret" not in plant.state("web").error


async def test_a_server_that_restarts_is_found_again(grow: Grow) -> None:
    port = free_port()
    with ExitStack() as first:
        url = web_demo_at(first, port)
        plant = grow(web={"url": url})
        await plant.prepare()
        assert await plant.value("web_echo", text="one") == "one"
    error = await plant.error("web_echo", text="lost")
    assert error.startswith("the MCP server web is unavailable")
    with ExitStack() as second:
        web_demo_at(second, port)
        await until(lambda: plant.state("web").state == "ready")
        assert await plant.value("web_echo", text="two") == "two"
        await plant.connectors.close()


async def test_a_token_is_got_when_it_is_needed_and_renewed_when_it_is_refused(
    grow: Grow, guarded: Guarded, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    plant = grow(ONCE, environment={"REFRESH": "refresh-1"}, docs=guarded.server())
    await plant.prepare()
    assert plant.state("docs").error is None
    assert await plant.value("docs_hello", name="you") == "hello you"
    assert guarded.counts()["renewed"] == 1
    guarded.set(access="access-2")
    assert await plant.value("docs_hello", name="again") == "hello again"
    assert guarded.counts()["renewed"] == 2
    kept = plant.home.data_dir / "connectors" / "docs.json"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
    assert json.loads(kept.read_text())["refresh_token"] == "refresh-3"
    await plant.connectors.close()
    # A new life begins with the token that the server gave last, not with the one of the file.
    again = grow(ONCE, environment={"REFRESH": "refresh-1"}, docs=guarded.server())
    await again.prepare()
    assert await again.value("docs_hello", name="you") == "hello you"
    for secret in ("refresh-1", "refresh-2", "refresh-3", "access-1", "access-2"):
        assert not any(secret in str(vars(record)) for record in caplog.records), secret


async def test_refused_credentials_are_told_without_them(grow: Grow, guarded: Guarded) -> None:
    plant = grow(ONCE, environment={"REFRESH": "wrong-refresh-token"}, docs=guarded.server())
    await plant.prepare()
    assert plant.state("docs").error == "it refused our credentials; the operator must renew them"
    static = grow(ONCE, docs={"url": f"{guarded.url}/mcp", "headers": {"Authorization": "Bearer a-wrong-token"}})
    await static.prepare()
    assert static.state("docs").error == "it refused our credentials; the operator must renew them"


async def test_a_server_that_wants_credentials_where_none_are_configured(grow: Grow, guarded: Guarded) -> None:
    plant = grow(ONCE, docs={"url": f"{guarded.url}/mcp"})
    await plant.prepare()
    assert plant.state("docs").error == NO_CREDENTIALS
    guarded.set(status=403, challenge="")
    other = grow(ONCE, docs={"url": f"{guarded.url}/mcp"})
    await other.prepare()
    assert other.state("docs").error == "it answered 403 Forbidden, and no credentials are configured"


async def test_a_scope_that_is_missing_is_named(grow: Grow, guarded: Guarded) -> None:
    """By the call that needs it; the other calls and the connection are as good as before."""
    guarded.set(status=403, challenge='Bearer error="insufficient_scope", scope="files:write"')
    barred = grow(ONCE, docs={"url": f"{guarded.url}/mcp", "headers": {"Authorization": "Bearer access-1"}})
    await barred.prepare()
    assert "it wants the scope 'files:write', which our credentials do not have" in barred.state("docs").error
    guarded.set(method="tools/call")
    plant = grow(ONCE, environment={"REFRESH": "refresh-1"}, docs=guarded.server())
    await plant.prepare()
    error = await plant.error("docs_hello", name="you")
    assert "it wants the scope 'files:write', which our credentials do not have" in error
    assert plant.state("docs").state == "ready"
    guarded.set(status=0)
    assert await plant.value("docs_hello", name="you") == "hello you"


async def test_a_call_that_is_refused_says_so(grow: Grow, guarded: Guarded) -> None:
    plant = grow(ONCE, docs={"url": f"{guarded.url}/mcp", "headers": {"Authorization": "Bearer access-1"}})
    await plant.prepare()
    assert plant.state("docs").error is None
    guarded.set(access="access-2")
    assert WRONG_CREDENTIALS in await plant.error("docs_hello", name="you")


async def test_a_token_is_asked_for_the_server_that_it_is_for(grow: Grow, guarded: Guarded) -> None:
    async def form(**more: Any) -> dict[str, Any]:
        guarded.set(rotate=False)
        server = guarded.server()
        plant = grow(
            ONCE,
            environment={"REFRESH": "refresh-1"},
            docs={**server, "url": f"{server['url']}?key=of-the-server", "oauth": {**server["oauth"], **more}},
        )
        await plant.prepare()
        assert plant.state("docs").error is None
        return guarded.counts()["form"]

    assert (await form())["resource"] == [f"{guarded.url}/mcp"], "without the query, which may hold a key"
    assert (await form(resource="https://other.example.org"))["resource"] == ["https://other.example.org"]
    assert "resource" not in await form(resource=False)


@pytest.mark.parametrize("error", ["invalid_target", "invalid_request"])
async def test_an_endpoint_that_takes_no_resource_is_asked_without_it(grow: Grow, guarded: Guarded, error: str) -> None:
    guarded.set(refusal={"field": "resource", "status": 400, "error": error})
    plant = grow(ONCE, environment={"REFRESH": "refresh-1"}, docs=guarded.server())
    await plant.prepare()
    assert plant.state("docs").error is None
    assert "resource" not in guarded.counts()["form"]
    assert (guarded.counts()["/token"], guarded.counts()["renewed"]) == (2, 1)
    guarded.set(access="access-2")
    assert await plant.value("docs_hello", name="you") == "hello you"
    assert guarded.counts()["/token"] == 3, "it is remembered"


REFUSALS = {
    "of Entra, for a resource of the operator's": (
        {"field": "resource", "status": 400, "error": "invalid_target"},
        "the token endpoint does not take resource of oauth; correct it, or write false",
    ),
    "whatever is asked": (
        {"field": "grant_type", "status": 400, "error": "invalid_request"},
        "the token endpoint does not understand the request; correct the fields of oauth",
    ),
    "a scope": (
        {"field": "grant_type", "status": 400, "error": "invalid_scope"},
        "the token endpoint does not give this scope; correct scope of oauth",
    ),
    "for now": (
        {"field": "grant_type", "status": 400, "error": "temporarily_unavailable"},
        "the token endpoint gives no token now (temporarily_unavailable)",
    ),
    "of GitHub": ({"field": "grant_type", "status": 200, "error": "bad_refresh_token"}, WRONG_CREDENTIALS),
    "a client": ({"field": "grant_type", "status": 401, "error": "invalid_client"}, WRONG_CREDENTIALS),
    "in words of its own": ({"field": "grant_type", "status": 403, "error": {"no": "luck"}}, WRONG_CREDENTIALS),
    "nothing": (
        {"field": "grant_type", "status": 200, "error": "odd"},
        "the token endpoint did not answer with an access token",
    ),
}


@pytest.mark.parametrize(("refusal", "told"), REFUSALS.values(), ids=REFUSALS.keys())
async def test_a_refusal_of_the_token_endpoint_says_what_to_do(
    grow: Grow, guarded: Guarded, refusal: dict[str, Any], told: str
) -> None:
    guarded.set(refusal=refusal)
    server = guarded.server()
    if refusal["field"] == "resource":
        server["oauth"]["resource"] = "https://other.example.org"
    plant = grow(ONCE, environment={"REFRESH": "refresh-1"}, docs=server)
    await plant.prepare()
    assert plant.state("docs").error == told
    assert guarded.counts()["/token"] == (2 if refusal["error"] == "invalid_request" else 1)


async def test_a_client_shows_its_secret_as_the_endpoint_wants_it(grow: Grow, guarded: Guarded) -> None:
    oauth = {"token_url": f"{guarded.url}/token", "client_id": "me:too", "client_secret": "a secret/+"}
    basic = {**oauth, "token_endpoint_auth_method": "client_secret_basic"}
    for given, shown in ((oauth, None), (basic, f"Basic {b64encode(b'me%3Atoo:a%20secret%2F%2B').decode()}")):
        plant = grow(ONCE, docs={"url": f"{guarded.url}/mcp", "oauth": given})
        await plant.prepare()
        assert plant.state("docs").error is None
        assert await plant.value("docs_hello", name="you") == "hello you"
        form = guarded.counts()["form"]
        assert form["grant_type"] == ["client_credentials"]
        assert form["authorization"] == shown
        assert form.get("client_secret") == (["a secret/+"] if shown is None else None)


async def test_credentials_that_are_withdrawn_later(grow: Grow, guarded: Guarded) -> None:
    plant = grow(ONCE, environment={"REFRESH": "refresh-1"}, docs=guarded.server())
    await plant.prepare()
    guarded.set(access="access-9", refresh="withdrawn")
    error = await plant.error("docs_hello", name="you")
    assert "it refused our credentials; the operator must renew them" in error
    assert "access" not in error
    assert "invalid_grant" not in error


async def test_credentials_go_to_nobody_else(grow: Grow, guarded: Guarded) -> None:
    other = Guarded(guarded.url.replace("127.0.0.1", "localhost"))
    guarded.set(redirect=f"{other.url}/elsewhere")
    plant = grow(ONCE, web={"url": f"{guarded.url}/mcp", "headers": {"X-Key": "my-secret-key"}})
    await plant.prepare()
    assert "not followed" in plant.state("web").error
    assert guarded.counts()["seen"] is None


async def test_by_the_forward_proxy_to_all_but_this_machine(grow: Grow, guarded: Guarded) -> None:
    seen: list[str] = []

    async def admit(host: str, port: int, _agent: str) -> str | None:
        seen.append(f"{host}:{port}")
        return "not from here"

    import socket

    bound = socket.create_server(("127.0.0.1", 0))
    bound.setblocking(False)
    async with ForwardProxy(DirectUpstream(AddressPolicy()), admit) as proxy:
        await proxy.listen(bound)
        ground = {"egress_url": f"http://127.0.0.1:{bound.getsockname()[1]}", "egress_token": "t"}
        plant = grow(ONCE, ground=ground, far={"url": "http://mcp.example.org/mcp"}, near={"url": f"{guarded.url}/mcp"})
        await plant.prepare()
        assert "not from here" in plant.state("far").error
        assert "credentials" in plant.state("near").error
    assert seen == ["mcp.example.org:80"]


async def test_by_a_forward_proxy_on_a_unix_socket(grow: Grow, web_demo: str, tmp_path: Path) -> None:
    """As from a machine without a network card: no name is looked up here, nothing but the socket is connected to."""

    async def admit(host: str, _port: int, _agent: str) -> str | None:
        return None if host == "mcp.test" else "not from here"

    door = Unix(f"{tmp_path}/out.sock")
    way_out = DirectUpstream(LOOPBACK, Names({"mcp.test": "127.0.0.1"}))
    with listen_at(door) as listening:
        async with ForwardProxy(way_out, admit) as proxy:
            await proxy.listen(listening.sock)
            ground = {"egress_url": http_url(door), "egress_token": "t"}
            plant = grow(ONCE, ground=ground, web={"url": web_demo.replace("127.0.0.1", "mcp.test")})
            await plant.prepare()
            assert plant.state("web").error is None
            assert await plant.value("web_echo", text="hello") == "hello"
            await plant.connectors.close()


PACKED = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\nxx"
ENDLESS = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n" + b" " * 6_000_000
NONSENSE = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 4\r\n\r\nnope"
SILENT = b""


@pytest.mark.parametrize("said", [PACKED, ENDLESS, NONSENSE, SILENT], ids=["packed", "endless", "nonsense", "silent"])
async def test_servers_that_mean_no_good(grow: Grow, said: bytes) -> None:
    held: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.append(writer)
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(said)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass

    site = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{site.sockets[0].getsockname()[1]}/mcp"
    connect = 2 if said else 0.3  # who says nothing is waited for to the end
    plant = grow(Timeouts(first_wait=10, connect=connect, backoff=(30.0,)), web={"url": url})
    await plant.prepare()
    await until(lambda: plant.state("web").state == "waiting")
    assert plant.state("web").error
    for writer in held:
        writer.close()
    site.close()
