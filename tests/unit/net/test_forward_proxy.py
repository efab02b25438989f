"""The forward proxy over real sockets, alone and with one behind the other."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop

from agent_common.net import WebClient, bind_tcp_socket
from agent_common.net.egress.upstream import DirectUpstream, ProxyUpstream
from agent_common.net.proxy.forward_proxy import ConnectionRecord, ForwardProxy, ForwardProxyLimits, unix_socket_proxy
from agent_runtime.errors import ToolFailure

from .webs import LOOPBACK, Names, authority, everywhere, leads_to, page, web

HELLO = page(b"hello")


async def anywhere(host: str, port: int, agent: str) -> str | None:
    return None


async def only_a(host: str, port: int, agent: str) -> str | None:
    return None if host == "a.test" else f"{host} is not on the list of {agent or 'nobody'}"


async def tokens(token: str) -> str | None:
    return {"s3cret": "writer", "other": "reader"}.get(token)


async def seen(site: Any, count: int) -> None:
    """Returns when so many requests have reached the site."""
    async with asyncio.timeout(60):
        while len(site.heads) < count:
            await asyncio.sleep(0.01)


class Proxy:
    def __init__(self, forward: ForwardProxy, port: int, notes: list[ConnectionRecord]) -> None:
        self.forward, self.port, self.notes = forward, port, notes
        self.url = f"http://127.0.0.1:{port}"

    async def say(self, data: bytes) -> bytes:
        """What the proxy answers until it hangs up."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(data)
            async with asyncio.timeout(60):
                return await reader.read()
        finally:
            writer.close()

    async def noted(self, count: int = 1) -> list[ConnectionRecord]:
        async with asyncio.timeout(60):
            while len(self.notes) < count:
                await asyncio.sleep(0.01)
        return self.notes


@asynccontextmanager
async def proxy(upstream: Any = None, admit: Any = anywhere, **options: Any) -> AsyncGenerator[Proxy]:
    notes: list[ConnectionRecord] = []
    bound = bind_tcp_socket("127.0.0.1", 0)
    bound.listen()
    async with ForwardProxy(upstream or everywhere(), admit, on_closed=notes.append, **options) as forward:
        await forward.listen(bound)
        yield Proxy(forward, bound.getsockname()[1], notes)


async def fetch(egress: WebClient, url: str) -> bytes:
    return (await egress.fetch(url)).body


async def test_a_plain_request_and_a_tunnel(tmp_path: Path) -> None:
    trust = authority(tmp_path, "a.test")
    async with web({"/x?y": HELLO}) as plain, web({"/": HELLO}, tls=trust.server) as secure, proxy() as it:
        request = f"GET {plain.url('/x?y')} HTTP/1.1\r\nHost: b.test\r\nProxy-Connection: close\r\n\r\n"
        assert (await it.say(request.encode())).endswith(b"\r\n\r\nhello")
        assert plain.heads[0].startswith(b"GET /x?y HTTP/1.1\r\nhost: a.test:")
        assert b"b.test" not in plain.heads[0]
        egress = WebClient(ProxyUpstream(it.url, rules=LOOPBACK), tls=lambda: trust.client)
        assert await fetch(egress, secure.url(scheme="https")) == b"hello"
        first, second = await it.noted(2)
    assert (first.verdict, first.host, first.port) == ("open", "a.test", plain.port)
    assert (first.received, first.sent) == (len(HELLO), len(plain.heads[0]))
    assert (second.verdict, second.status, second.port) == ("open", 200, secure.port)
    assert second.seconds > 0


async def test_a_body_goes_up_and_many_bytes_come_down() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        body = await reader.readexactly(2_000_000)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + body)
        await writer.drain()

    async with web({"/": echo}) as site, proxy() as it:
        head = f"POST {site.url()} HTTP/1.1\r\ncontent-length: 2000000\r\n\r\n".encode()
        assert len(await it.say(head + bytes(2_000_000))) > 2_000_000


@pytest.mark.parametrize("body", [b"", b"four"])
async def test_what_follows_a_request_goes_nowhere(body: bytes) -> None:
    read: list[bytes] = []

    async def until_closed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(TimeoutError):  # a host waits for as long as it likes
            async with asyncio.timeout(0.5):
                while data := await reader.read(1 << 16):
                    read.append(data)
        writer.write(HELLO)

    async with web({"/": until_closed}) as site, proxy(admit=only_a) as it:
        head = f"POST {site.url()} HTTP/1.1\r\ncontent-length: {len(body)}\r\n\r\n".encode()
        assert b"hello" in await it.say(head + body + b"GET http://evil.test/ HTTP/1.1\r\nhost: evil.test\r\n\r\n")
        notes = await it.noted()
    assert b"".join(read) == body
    assert notes[0].host == "a.test"


async def test_only_admitted_hosts_and_only_for_who_is_known() -> None:
    async with web({"/": HELLO}) as site, proxy(admit=only_a, authenticate=tokens) as it:
        for credentials in (None, "wrong"):
            with pytest.raises(ToolFailure, match="token of the mesh") as failure:
                await fetch(WebClient(ProxyUpstream(it.url, credentials, LOOPBACK)), site.url())
            assert failure.value.kind == "unavailable"
        known = WebClient(ProxyUpstream(it.url, "s3cret", LOOPBACK))
        with pytest.raises(ToolFailure, match=r"b\.test is not on the list of writer") as refused:
            await fetch(known, site.url(host="b.test"))
        assert refused.value.kind == "denied"
        assert await fetch(known, site.url()) == b"hello"
        bearer = f"GET {site.url()} HTTP/1.1\r\nProxy-Authorization: Bearer s3cret\r\n\r\n"
        assert b"hello" in await it.say(bearer.encode())
        answer = await it.say(f"CONNECT a.test:{site.port} HTTP/1.1\r\n\r\n".encode())
        assert answer.startswith(b"HTTP/1.1 407 ")
        assert b'Proxy-Authenticate: Basic realm="mesh"' in answer
        notes = await it.noted(6)
    assert not any(b"s3cret" in head for head in site.heads)
    assert [(note.verdict, note.status, note.agent) for note in notes] == [
        ("refused", 407, ""),
        ("refused", 407, ""),
        ("refused", 403, "writer"),
        ("open", 200, "writer"),
        ("open", 200, "writer"),
        ("refused", 407, ""),
    ]


async def test_the_way_out_has_the_last_word() -> None:
    names = Names({"a.test": "127.0.0.1", "inner.test": "169.254.169.254"})
    async with proxy(DirectUpstream(LOOPBACK, names)) as it:
        cases = {
            "inner.test:80": b"403 ",
            "10.0.0.1:80": b"403 ",
            "nowhere.test:80": b"502 ",
            "a.test:9": b"502 ",
        }
        for host, status in cases.items():
            assert (await it.say(f"CONNECT {host} HTTP/1.1\r\n\r\n".encode())).startswith(b"HTTP/1.1 " + status), host
        notes = await it.noted(4)
    assert [note.verdict for note in notes] == ["refused", "refused", "failed", "failed"]
    assert "link-local" in notes[0].reason


async def test_redirects_through_a_parent_are_checked_on_both_sides() -> None:
    pages = {"/a": leads_to("/", host="b.test"), "/b": page(b"", "302 Found", location="http://127.0.0.1/")}
    async with web(pages) as site, proxy(admit=only_a) as it:
        with pytest.raises(ToolFailure, match="not on the list"):
            await fetch(WebClient(ProxyUpstream(it.url, rules=LOOPBACK)), site.url("/a"))
        with pytest.raises(ToolFailure, match="this machine itself"):
            await fetch(WebClient.via_proxy(it.url), site.url("/b"))
        assert [note.host for note in await it.noted(3)] == ["a.test", "b.test", "a.test"]


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n", b"400"),
        (b"\x16\x03\x01 not http\r\n\r\n", b"400"),
        (b"GET http://a.test/ HTTP/1.1\r\nx: " + b"a" * 40_000 + b"\r\n\r\n", b"431"),
        (b"GET http://a.test/ HTTP/1.1\r\n", b"408"),
    ],
)
async def test_requests_that_are_none(data: bytes, status: bytes) -> None:
    async with proxy(limits=ForwardProxyLimits(head_seconds=1)) as it:
        assert (await it.say(data)).startswith(b"HTTP/1.1 " + status + b" ")


async def test_silence_and_length_have_their_ends() -> None:
    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(b".")
            await writer.drain()
            await asyncio.sleep(0.01)

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with web({"/drip": drip, "/silent": silent}) as site:
        for path, limits, reason in (
            ("/silent", ForwardProxyLimits(idle_seconds=0.1), "idle for 0.1 s"),
            ("/drip", ForwardProxyLimits(idle_seconds=60, total_seconds=1.5), "over after 1.5 s"),
        ):
            async with proxy(limits=limits) as it:
                await it.say(f"GET {site.url(path)} HTTP/1.1\r\n\r\n".encode())
                assert [(note.verdict, note.reason) for note in await it.noted()] == [("open", reason)]


async def quiet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A server that never answers."""
    await reader.read()


def asking(url: str, token: str | None = None) -> bytes:
    shown = f"Proxy-Authorization: Bearer {token}\r\n" if token else ""
    return f"GET {url} HTTP/1.1\r\n{shown}\r\n".encode()


async def test_no_more_connections_than_are_allowed() -> None:
    async with web({"/": quiet, "/x": HELLO}) as site, proxy(limits=ForwardProxyLimits(connections=2)) as it:
        waiting = [await asyncio.open_connection("127.0.0.1", it.port) for _ in range(2)]
        for _, writer in waiting:
            writer.write(asking(site.url()))
        await seen(site, 2)
        assert (await it.say(asking(site.url("/x")))).startswith(b"HTTP/1.1 503 ")
        for _, writer in waiting:
            writer.close()


async def test_heads_that_never_end_keep_nobody_out() -> None:
    async with web({"/": HELLO}) as site, proxy(authenticate=tokens, limits=ForwardProxyLimits(heads=4)) as it:
        strangers = [await asyncio.open_connection("127.0.0.1", it.port) for _ in range(20)]
        for _, writer in strangers:
            writer.write(b"CONNECT a.test:80 HTTP/1.1\r\n")
        assert (await it.say(asking(site.url(), "s3cret"))).endswith(b"hello")
        assert [await reader.read() for reader, _ in strangers[:16]] == [b""] * 16
        for _, writer in strangers:
            writer.close()


async def test_one_agent_alone_leaves_half_of_the_connections() -> None:
    async with (
        web({"/": quiet, "/x": HELLO}) as site,
        proxy(authenticate=tokens, limits=ForwardProxyLimits(connections=6)) as it,
    ):
        waiting = [await asyncio.open_connection("127.0.0.1", it.port) for _ in range(3)]
        for _, writer in waiting:
            writer.write(asking(site.url(), "s3cret"))
        await seen(site, 3)
        refused = await it.say(asking(site.url("/x"), "s3cret"))
        assert refused.startswith(b"HTTP/1.1 429 ")
        assert b"\r\nRetry-After: 1\r\n" in refused
        assert (await it.say(asking(site.url("/x"), "other"))).endswith(b"hello")
        waiting[0][1].close()
        while not (await it.say(asking(site.url("/x"), "s3cret"))).endswith(b"hello"):
            pass
        for _, writer in waiting:
            writer.close()


async def test_what_is_sent_must_be_taken() -> None:
    async def chatty(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(200):
            writer.write(bytes(100_000))
            await writer.drain()

    async with web({"/": chatty}) as site, proxy(limits=ForwardProxyLimits(idle_seconds=0.2)) as it:
        reader, writer = await asyncio.open_connection("127.0.0.1", it.port, limit=1024)
        writer.write(f"POST {site.url()} HTTP/1.1\r\ncontent-length: 9999\r\n\r\n".encode())
        while not it.notes:  # it sends, and reads nothing
            writer.write(b".")
            await asyncio.sleep(0.01)
        assert it.notes[0].reason == "the peer read nothing for 0.2 s"
        del reader
        writer.close()


async def test_closing_ends_what_is_open() -> None:
    gone = asyncio.Event()

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.read() == b""
        gone.set()

    async with web({"/": wait}) as site:
        async with proxy() as it:
            _, writer = await asyncio.open_connection("127.0.0.1", it.port)
            writer.write(f"GET {site.url()} HTTP/1.1\r\n\r\n".encode())
            async with asyncio.timeout(60):
                while not site.heads:
                    await asyncio.sleep(0.01)
        async with asyncio.timeout(60):
            await gone.wait()
        writer.close()
    assert [note.verdict for note in it.notes] == ["open"]


def through(path: Path) -> WebClient:
    return WebClient(ProxyUpstream(f"http+unix://{str(path).replace('/', '%2F')}", rules=LOOPBACK))


async def test_a_gateway_on_a_unix_socket_behind_a_parent(tmp_path: Path) -> None:
    """As a confined command goes out: its gateway, the host's proxy, the web."""
    async with (
        web({"/": HELLO}) as site,
        proxy(admit=only_a, authenticate=tokens) as it,
        unix_socket_proxy(tmp_path / "s", anywhere, ProxyUpstream(it.url, "s3cret", LOOPBACK), uid=os.getuid()) as path,
    ):
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        assert await fetch(through(path), site.url()) == b"hello"
        with pytest.raises(ToolFailure, match=r"b\.test is not on the list of writer"):
            await fetch(through(path), site.url(host="b.test"))
    assert not path.exists()
    with pytest.raises(ToolFailure, match="the forward proxy cannot be reached"):
        await fetch(through(path), site.url())


async def test_a_parent_that_is_no_proxy() -> None:
    cases: dict[bytes, tuple[str, str]] = {
        b"junk\r\n\r\n": ("backend", "is not that of a forward proxy"),
        b"": ("backend", "broke off"),
        b"HTTP/1.1 504 Late\r\n\r\nit was too slow": ("timeout", "it was too slow"),
        b"HTTP/1.1 500 Oh\r\n\r\n": ("backend", "the proxy answered 500"),
    }
    for answer, (kind, text) in cases.items():

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, data: bytes = answer) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(data)
            writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            with pytest.raises(ToolFailure, match=text) as failure:
                await fetch(WebClient(ProxyUpstream(url)), "http://example.org/")
            assert failure.value.kind == kind


async def test_what_can_be_told_without_a_look_up_never_reaches_the_parent() -> None:
    async with proxy() as it:
        for url in ("http://127.0.0.1/", "http://[::ffff:10.0.0.1]/", "http://localhost/", "http://example.org:22/"):
            with pytest.raises(ToolFailure) as failure:
                await fetch(WebClient.via_proxy(it.url), url)
            assert failure.value.kind == "denied"
        assert it.notes == []


def test_under_the_servers_event_loop(tmp_path: Path) -> None:
    trust = authority(tmp_path, "a.test")

    async def main() -> int:
        async with (
            web({"/": page(bytes(3_000_000))}, tls=trust.server) as site,
            proxy() as it,
            unix_socket_proxy(tmp_path / "s", anywhere, ProxyUpstream(it.url, rules=LOOPBACK)) as path,
        ):
            parent = through(path).upstream
            return len(await fetch(WebClient(parent, tls=lambda: trust.client), site.url(scheme="https")))

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(main()) == 3_000_000
