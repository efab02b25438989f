"""The client that fetches what a model names: where it goes, where it does not, and what it takes."""

from __future__ import annotations

import asyncio
import gzip
import tracemalloc
import zlib
from pathlib import Path

import pytest
import uvloop

from agent_common.net.egress.fetch import FetchLimits, WebClient
from agent_common.net.egress.upstream import DirectUpstream
from agent_runtime.errors import ToolFailure

from .webs import LOOPBACK, Names, Web, authority, everywhere, leads_to, page, web

HELLO = page(b"hello")


def client(**bounds: float) -> WebClient:
    return WebClient(everywhere(), FetchLimits(**bounds))  # type: ignore[arg-type]


async def refused(egress: WebClient, url: str, kind: str, match: str) -> None:
    with pytest.raises(ToolFailure, match=match) as failure:
        await egress.fetch(url)
    assert failure.value.kind == kind, failure.value.message


# ---------------------------------------------------------------- where it goes


async def test_a_page_is_fetched_under_its_own_name() -> None:
    async with web({"/a?b=c": HELLO}) as site:
        found = await client().fetch(site.url("/a?b=c#d"), {"Accept": "text/html"})
    assert (found.url, found.status, found.body, found.truncated) == (site.url("/a?b=c"), 200, b"hello", False)
    assert found.headers["content-type"] == "text/plain"
    assert f"\r\nhost: a.test:{site.port}\r\n".encode() in site.heads[0]
    assert b"\r\naccept: text/html\r\n" in site.heads[0]


async def test_a_status_is_an_answer() -> None:
    async with web({}) as site:
        assert (await client().fetch(site.url("/none"))).status == 404


async def test_a_name_is_looked_up_once_and_cannot_lead_elsewhere_by_then() -> None:
    names = Names({"a.test": ["127.0.0.1", "10.0.0.1"]})
    async with web({"/": HELLO}) as site:
        assert (await WebClient(DirectUpstream(LOOPBACK, names)).fetch(site.url())).body == b"hello"
        assert names.asked == ["a.test"]
        await refused(WebClient(DirectUpstream(LOOPBACK, names)), site.url(), "denied", r"a.test leads to 10.0.0.1")
    assert site.connections == 1


async def test_what_is_not_public_is_not_even_connected_to() -> None:
    names = Names({"in.test": "127.0.0.1", "mixed.test": "93.184.216.34 127.0.0.1", "v6.test": "::ffff:127.0.0.1"})
    async with web({"/": HELLO}) as site:
        for host in ("in.test", "mixed.test", "v6.test", "127.0.0.1", "[::ffff:127.0.0.1]", "localhost", "localhost."):
            await refused(WebClient(DirectUpstream(resolver=names)), site.url(host=host), "denied", "only public hosts")
    assert site.connections == 0


async def test_metadata_services() -> None:
    for url in ("http://169.254.169.254/latest", "http://[fd00:ec2::254]/", "http://metadata.google.internal/"):
        await refused(WebClient(), url, "denied", "only public hosts")


async def test_names_without_addresses() -> None:
    await refused(client(), "http://nowhere.test/", "backend", "nowhere.test has no address")
    await refused(WebClient(DirectUpstream(LOOPBACK, Names({"a.test": ""}))), "http://a.test/", "backend", "no address")
    await refused(
        WebClient(DirectUpstream(LOOPBACK, Names({"a.test": "junk"}))), "http://a.test/", "backend", "no address"
    )


async def test_the_next_address_is_tried_and_nobody_there_is_an_error() -> None:
    names = Names({"a.test": "127.0.0.2 127.0.0.1"})
    async with web({"/": HELLO}) as site:
        assert (await WebClient(DirectUpstream(LOOPBACK, names)).fetch(site.url())).body == b"hello"
    await refused(client(), site.url(), "backend", r"a.test refuses a connection on port \d+")


# ---------------------------------------------------------------- redirects


async def test_redirects_are_followed_and_asked_about() -> None:
    asked: list[str] = []

    async def admit(url: str) -> str | None:
        asked.append(url)
        return "b.test is not on the list" if url.endswith("/secret") else None

    pages = {"/": leads_to("/two"), "/two": leads_to("/three", host="b.test", status=308), "/three": HELLO}
    async with web({**pages, "/out": leads_to("/secret", host="b.test")}) as site:
        found = await client().fetch(site.url(), check_url=admit)
        assert (found.url, found.body) == (site.url("/three", "b.test"), b"hello")
        assert asked == [site.url(), site.url("/two"), site.url("/three", "b.test")]
        with pytest.raises(ToolFailure, match="not on the list") as failure:
            await client().fetch(site.url("/out"), check_url=admit)
        assert failure.value.kind == "denied"
        assert not any(b"/secret" in head for head in site.heads)


async def test_redirects_to_inner_addresses_do_not_widen() -> None:
    def rules(names: Names) -> WebClient:
        return WebClient(DirectUpstream(LOOPBACK, names))

    names = Names({"a.test": "127.0.0.1", "evil.test": "169.254.169.254"})
    for target in ("http://169.254.169.254/", "http://evil.test/", "http://[::1]/", "http://10.0.0.1:80/"):
        async with web({"/": page(b"", "302 Found", location=target)}) as site:
            await refused(rules(names), site.url(), "denied", "only public hosts")
    async with web({"/": page(b"", "302 Found", location="file:///etc/passwd")}) as site:
        await refused(client(), site.url(), "invalid", "only http and https")


async def test_redirects_without_end() -> None:
    async with web({"/": leads_to("/")}) as site:
        await refused(client(), site.url(), "backend", "more than 5 redirects")
    assert site.connections == 6


async def test_credentials_stay_with_their_origin() -> None:
    secrets = {"Authorization": "Bearer s3cret", "Cookie": "s3cret=1", "X-Api-Key": "s3cret", "Accept": "text/html"}
    pages = {"/": leads_to("/same"), "/same": leads_to("/other", host="b.test"), "/other": leads_to("/back")}
    async with web({**pages, "/back": HELLO}) as site:
        await client().fetch(site.url(), secrets)
    assert [b"s3cret" in head for head in site.heads] == [True, True, False, False]
    assert all(b"accept: text/html" in head for head in site.heads)


@pytest.mark.parametrize("header", [{"x": "a\r\nb: c"}, {"x y": "z"}, {"Host": "b.test"}, {"x": "ü"}])
async def test_headers_that_would_be_more_than_headers(header: dict[str, str]) -> None:
    with pytest.raises(ToolFailure, match="cannot be sent"):
        await client().fetch("http://a.test/", header)


# ---------------------------------------------------------------- tls


async def test_tls_is_checked_against_the_name_and_never_left(tmp_path: Path) -> None:
    a, b = authority(tmp_path, "a.test"), authority(tmp_path, "b.test")
    a.client.load_verify_locations(b.certificate)
    trusting = WebClient(everywhere(), tls=lambda: a.client)
    pages = {"/": HELLO, "/plain": leads_to("/"), "/same": leads_to("/", scheme="https")}
    async with web(pages, tls=a.server) as site:
        assert (await trusting.fetch(site.url("/same", scheme="https"))).body == b"hello"
        await refused(client(), site.url(scheme="https"), "backend", "certificate of a.test is not valid")
        await refused(trusting, site.url(host="b.test", scheme="https"), "backend", "certificate of b.test is not")
        await refused(trusting, site.url("/plain", scheme="https"), "denied", "leads from https to http://a.test")

    async def plain(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(plain, "127.0.0.1", 0) as server:
        url = Web(server.sockets[0].getsockname()[1]).url(scheme="https")
        await refused(trusting, url, "backend", "no secure connection")


def test_tls_under_the_servers_event_loop(tmp_path: Path) -> None:
    trust = authority(tmp_path, "a.test")

    async def fetch() -> bytes:
        async with web({"/": page(b"x" * 3_000_000)}, tls=trust.server) as site:
            return (await WebClient(everywhere(), tls=lambda: trust.client).fetch(site.url(scheme="https"))).body

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert len(runner.run(fetch())) == 3_000_000


# ---------------------------------------------------------------- what it takes


@pytest.mark.parametrize(
    ("encoding", "packed"),
    [
        ("gzip", gzip.compress(b"hello ", mtime=0) + gzip.compress(b"world", mtime=0)),
        ("x-gzip", gzip.compress(b"hello world", mtime=0)),
        ("deflate", zlib.compress(b"hello world")),
        ("deflate", zlib.compress(b"hello world")[2:-4]),
        ("identity", b"hello world"),
    ],
)
async def test_compressed_bodies(encoding: str, packed: bytes) -> None:
    async with web({"/": page(packed, content_encoding=encoding)}) as site:
        assert (await client().fetch(site.url())).body == b"hello world"
    assert b"accept-encoding: gzip, deflate\r\n" in site.heads[0]


async def test_bombs_are_not_unpacked() -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = b"".join(packer.compress(bytes(2**20)) for _ in range(200)) + packer.flush()
    async with web({"/": page(bomb, content_encoding="gzip")}) as site:
        tracemalloc.start()
        try:
            found = await client(body_bytes=1000).fetch(site.url())
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert (len(found.body), found.truncated) == (1000, True)
    assert most < 4 * 2**20


async def test_damaged_and_foreign_encodings() -> None:
    whole = gzip.compress(b"hello" * 1000)
    pages = {
        "/damaged": page(b"\x1f\x8b nonsense", content_encoding="gzip"),
        "/broken": page(whole[:30], content_encoding="gzip"),
        "/br": page(b"x", content_encoding="br"),
        "/two": page(gzip.compress(whole), content_encoding="gzip, gzip"),
        "/empty": page(b"", content_encoding="gzip"),
    }
    async with web(pages) as site:
        await refused(client(), site.url("/damaged"), "backend", "damaged")
        await refused(client(), site.url("/broken"), "backend", "middle of its compressed data")
        await refused(client(), site.url("/br"), "backend", "'br', which was not requested")
        await refused(client(), site.url("/two"), "backend", "which was not requested")
        assert (await client().fetch(site.url("/empty"))).body == b""


@pytest.mark.parametrize(("most", "length", "cut"), [(999, 999, True), (1000, 1000, False), (1001, 1000, False)])
async def test_the_bound_of_a_body(most: int, length: int, cut: bool) -> None:
    async with web({"/": page(bytes(1000))}) as site:
        found = await client(body_bytes=most).fetch(site.url())
    assert (len(found.body), found.truncated) == (length, cut)


async def test_bytes_on_the_wire_have_a_bound_of_their_own() -> None:
    stored = zlib.compressobj(0, zlib.DEFLATED, 31)
    packed = stored.compress(bytes(100_000)) + stored.flush()
    async with web({"/": page(packed, content_encoding="gzip")}) as site:
        found = await client(wire_bytes=10_000).fetch(site.url())
    assert found.truncated


async def trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
    while True:
        writer.write(b".")
        await writer.drain()
        await asyncio.sleep(0.01)


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def test_a_trickle_ends_at_the_deadline_and_silence_before_it() -> None:
    async with web({"/slow": trickle, "/silent": silent}) as site:
        await refused(client(seconds=0.2), site.url("/slow"), "timeout", "did not come within 0.2 s")
        await refused(client(idle_seconds=0.05), site.url("/silent"), "timeout", "sent nothing for 0.05 s")


async def test_headers_without_end() -> None:
    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            writer.write(b"x-a: " + b"a" * 1000 + b"\r\n")
            await writer.drain()

    async with web({"/": endless}) as site:
        await refused(client(), site.url(), "backend", "headers of more than 64 KB")


@pytest.mark.parametrize(
    ("answer", "match"),
    [
        (b"", "hung up before it answered"),
        (b"HTTP/1.1 200 OK\r\ncontent-len", "hung up before it answered"),
        (b"nonsense\r\n\r\n", "is not valid HTTP"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nshort", "middle of its answer"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhel", "middle of its answer"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", "is not valid HTTP"),
        (b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n\0\0", "(is not valid HTTP|hung up)"),
    ],
)
async def test_answers_that_are_none(answer: bytes, match: str) -> None:
    async with web({"/": answer}) as site:
        await refused(client(), site.url(), "backend", match)


async def test_other_ways_to_answer() -> None:
    chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\nx-t: 1\r\n\r\n"
    pages = {
        "/chunked": chunked,
        "/close": b"HTTP/1.0 200 OK\r\n\r\nall of it",
        "/early": b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + HELLO,
        "/more": HELLO + b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nbad",
        "/304": b"HTTP/1.1 304 Not Modified\r\n\r\n",
    }
    async with web(pages) as site:
        bodies = [(await client().fetch(site.url(path))).body for path in pages]
    assert bodies == [b"abcde", b"all of it", b"hello", b"hello", b""]


async def test_a_cancelled_fetch_hangs_up() -> None:
    gone = asyncio.Event()

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.read() == b""
        gone.set()

    async with web({"/": wait}) as site:
        fetching = asyncio.create_task(client().fetch(site.url()))
        async with asyncio.timeout(60):
            while not site.heads:
                await asyncio.sleep(0.01)
            fetching.cancel()
            await asyncio.wait({fetching})
            await gone.wait()
