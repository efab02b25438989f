"""The desk that takes searches, and the engines behind it."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_common.protocol import SearchHit, SearchRequest
from agent_host.errors import ProviderFailed, RequestError, StartError, Unavailable
from agent_host.proxy.search import SearchService, load_search
from agent_host.proxy.search.provider import MAX_CONCURRENT
from agent_host.proxy.search.recorded import RecordedSearch
from agent_host.proxy.search.web import DdgsSearch, engine_of, hits
from tests.unit.net.webs import authority

RECORDED = """
queries:
  Python  Release:
    - {title: One, url: "https://example.org/1", snippet: first}
    - {title: Two, url: "https://example.org/2", snippet: second}
otherwise:
  - {title: Other, url: "https://example.org/0", snippet: ""}
"""


def request(query: str = "python release", session: str = "ses_1", most: int = 8) -> SearchRequest:
    return SearchRequest(query=query, max_results=most, session=session)


class Slow:
    def __init__(self) -> None:
        self.ended = False

    async def search(self, query: str, most: int, session: str) -> Sequence[SearchHit]:
        try:
            await asyncio.Event().wait()
        finally:
            self.ended = True
        return []

    def close(self) -> None: ...


# ---------------------------------------------------------------- recorded


async def test_recorded_answers(tmp_path: Path) -> None:
    path = tmp_path / "found.yaml"
    path.write_text(RECORDED)
    search = RecordedSearch(path)
    assert [hit.title for hit in await search.search(" PYTHON release", 8, "s")] == ["One", "Two"]
    assert [hit.title for hit in await search.search("python release", 1, "s")] == ["One"]
    assert [hit.title for hit in await search.search("else", 8, "s")] == ["Other"]


@pytest.mark.parametrize(
    ("text", "why"),
    [("queries: [", "is not YAML"), ("queries: {a: [{title: x}]}", r"queries\.a\.0\.url"), ("more: 1", "more")],
)
def test_wrong_recordings_stop_the_start(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "found.yaml"
    path.write_text(text)
    with pytest.raises(StartError, match=f"MESH_SEARCH: .*{why}"):
        load_search(f"recorded:{path}", tmp_path)
    with pytest.raises(StartError, match="cannot read"):
        load_search("recorded:/nowhere/found.yaml", tmp_path)


# ---------------------------------------------------------------- the desk


async def test_a_session_has_its_count(tmp_path: Path) -> None:
    path = tmp_path / "found.yaml"
    path.write_text(RECORDED)
    desk = SearchService(load_search(f"recorded:{path}", tmp_path))
    for _ in range(25):
        assert len(await desk.search("writer", request())) == 2
    with pytest.raises(RequestError, match="25 times") as over:
        await desk.search("writer", request())
    assert (over.value.status, over.value.code) == (429, "search_limit")
    assert await desk.search("writer", request(session="ses_2"))
    assert await desk.search("reader", request())


async def test_a_search_that_hangs_is_ended() -> None:
    slow = Slow()
    with pytest.raises(ProviderFailed, match=r"longer than 0\.05 s") as late:
        await SearchService(slow, seconds=0.05).search("writer", request())
    assert (late.value.status, slow.ended) == (504, True)


async def test_one_agent_alone_leaves_half_of_the_searches() -> None:
    desk = SearchService(Slow(), seconds=0.2)
    asked = [asyncio.create_task(desk.search("greedy", request(session=str(n)))) for n in range(MAX_CONCURRENT)]
    other = asyncio.create_task(desk.search("other", request()))
    ends = await asyncio.gather(*asked, other, return_exceptions=True)
    codes = [end.code if isinstance(end, RequestError) else "" for end in ends]
    assert codes == ["provider_timeout"] * (MAX_CONCURRENT // 2) + ["too_many_searches"] * (MAX_CONCURRENT // 2) + [
        "provider_timeout"
    ]


async def test_search_may_be_off(tmp_path: Path) -> None:
    assert load_search("off", tmp_path) is None
    desk = SearchService(None)
    with pytest.raises(Unavailable, match="MESH_SEARCH"):
        await desk.search("writer", request())
    desk.close()


# ---------------------------------------------------------------- the web's engines


@given(st.text(), st.permutations(["brave", "duckduckgo", "mojeek", "wikipedia"]))
def test_a_session_keeps_its_engine(session: str, engines: list[str]) -> None:
    assert engine_of(session, engines) == engine_of(session, sorted(engines)) != "wikipedia"


def test_sessions_are_spread_over_the_engines() -> None:
    chosen = Counter(engine_of(f"ses_{number}", ["a", "b", "c"]) for number in range(300))
    assert min(chosen.values()) > 60
    assert engine_of("s", ["wikipedia"]) == "wikipedia"


def test_what_is_no_page_is_left_out() -> None:
    found = [
        {"title": "t" * 400, "href": "https://a.test/", "body": "b" * 2000},
        {"title": "x", "href": "javascript:alert(1)", "body": ""},
        {"title": "x", "href": "", "body": ""},
        {"title": "x", "href": "https://a.test/" + "a" * 3000, "body": ""},
        {"href": "http://b.test/"},
        {"href": "http://c.test/"},
    ]
    first, second = hits(found, 2)
    assert (len(first.title), len(first.snippet)) == (300, 1000)
    assert second == SearchHit(title="", url="http://b.test/", snippet="")


PAGE = b"""<html><body><ul class="results-standard">
<li><h2><a href="https://example.org/one">Python &amp; one</a></h2>
<p class="s">The   first snippet about python</p></li>
<li><h2><a href="https://example.org/two">Two</a></h2><p class="s">Second</p></li></ul></body></html>"""


@asynccontextmanager
async def engine(folder: Path, answer: bytes) -> AsyncGenerator[tuple[str, str, list[bytes]]]:
    """A proxy in front of an engine, with the engine's own certificate: ddgs itself is asked, and nothing goes out."""
    trust = authority(folder, "www.mojeek.com")
    seen: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            seen.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            await writer.start_tls(trust.server)
            seen.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: %d\r\n\r\n" % len(answer))
            writer.write(answer)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}", str(trust.certificate), seen


def session_of(name: str) -> str:
    from ddgs.engines import ENGINES

    return next(f"s{n}" for n in range(1000) if engine_of(f"s{n}", list(ENGINES["text"])) == name)


async def test_what_ddgs_finds(tmp_path: Path) -> None:
    async with engine(tmp_path, PAGE) as (proxy, certificate, seen):
        search = DdgsSearch(proxy, verify=certificate)
        found = await search.search("python", 1, session_of("mojeek"))
        search.close()
    assert seen[0].startswith(b"CONNECT www.mojeek.com:443 ")
    assert seen[1].startswith(b"GET /search?q=python")
    assert found == [
        SearchHit(title="Python & one", url="https://example.org/one", snippet="The first snippet about python")
    ]


async def test_an_engine_has_a_certificate_of_an_authority_that_the_environment_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with engine(tmp_path, PAGE) as (proxy, certificate, _):
        monkeypatch.setenv("DDGS_PROXY", proxy)
        monkeypatch.setenv("AGENT_CA_FILE", certificate)
        search = load_search("ddgs", tmp_path / "host")
        assert search is not None
        assert len(await search.search("python", 1, session_of("mojeek"))) == 1
        search.close()


async def test_finding_nothing_is_no_fault(tmp_path: Path) -> None:
    async with engine(tmp_path, b"<html><body>nothing</body></html>") as (proxy, certificate, _):
        search = DdgsSearch(proxy, verify=certificate)
        assert await search.search("python", 5, session_of("mojeek")) == []
        search.close()


async def test_an_engine_out_of_reach_is_a_502_and_a_silent_one_a_504() -> None:
    closed = DdgsSearch("http://127.0.0.1:1")
    with pytest.raises(ProviderFailed, match="mojeek cannot be reached") as refused:
        await closed.search("python", 5, session_of("mojeek"))
    assert refused.value.status == 502
    closed.close()
    with socket.create_server(("127.0.0.1", 0)) as server:  # takes connections and says nothing
        silent = DdgsSearch(f"http://127.0.0.1:{server.getsockname()[1]}", seconds=1)
        with pytest.raises(ProviderFailed, match="mojeek") as late:
            await silent.search("python", 5, session_of("mojeek"))
        silent.close()
    assert late.value.status == 504
