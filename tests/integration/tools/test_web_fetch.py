"""`web_fetch` as the loop calls it: real sockets, and the page is read by a confined process."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from agent_common.net import WebClient
from agent_common.protocol import Rule
from agent_common.protocol.authority import Authority, Layer
from agent_runtime.ports import ToolContext, ToolResult
from agent_runtime.tools import ToolGate
from agent_runtime.tools.web.fetch import EXTRACT_PROGRAM, FETCH_LIMIT, PageReader, web_fetch_tool
from tests.unit.net.webs import everywhere, leads_to, page, web

from .conftest import House

HTML = {"content_type": "text/html; charset=utf-8"}
PARAGRAPH = "<p>Paragraph {} tells of <a href='/more/{}'>something</a> that is long enough to be worth reading.</p>"
ARTICLE = f"""<!doctype html><html><head><title>Ignored</title></head><body>
<nav><ul>{"<li><a href='/x'>Elsewhere</a></li>" * 20}</ul></nav>
<article><h1>The heading</h1>{"".join(PARAGRAPH.format(n, n) for n in range(5))}
<table><tr><th>name</th><th>size</th></tr><tr><td>Größe</td><td>42</td></tr></table></article>
<footer>imprint</footer></body></html>""".encode()

Fetch = Callable[..., Awaitable[ToolResult]]


def fetcher(house: House, reader: PageReader | None = None, *rules: Rule, approved: bool = False) -> Fetch:
    tool = web_fetch_tool(WebClient(everywhere()), reader or PageReader(house.confinement))
    authority = Authority((Layer(rules=rules),)) if rules else Authority()
    context = replace(house.context, authority=authority, approved=approved)

    async def fetch(**arguments: Any) -> ToolResult:
        result = await ToolGate().run(tool, arguments, context)
        assert isinstance(result, ToolResult)
        return result

    return fetch


async def test_a_page_becomes_markdown(house: House) -> None:
    async with web({"/": leads_to("/page"), "/page": page(ARTICLE, **HTML)}) as site:
        result = await fetcher(house)(url=site.url())
    assert result.type == "output", result.error_text
    text = result.data["text"]
    assert (result.data["url"], result.data["status"]) == (site.url("/page"), 200)
    assert result.data["content_type"] == "text/html"
    assert "# The heading" in text
    assert f"tells of [something]({site.url('/more/3')}) that" in text
    assert "| Größe | 42 |" in text
    assert "Elsewhere" not in text
    assert "truncated" not in result.metadata


async def test_other_text_comes_as_it_is(house: House) -> None:
    pages = {
        "/json": page(b'{"a": [1]}', content_type="application/json"),
        "/md": page("# Ü".encode("latin-1"), content_type="text/markdown; charset=latin-1"),
        "/none": page(b"no such page", "404 Not Found"),
        "/empty": page(b"", content_type="image/png"),
    }
    async with web(pages) as site:
        results = [await fetcher(house)(url=site.url(path)) for path in pages]
    assert [(one.data["status"], one.data["text"]) for one in results] == [
        (200, '{"a": [1]}'),
        (200, "# Ü"),
        (404, "no such page"),
        (200, ""),
    ]


async def test_what_is_no_text_is_named(house: House) -> None:
    async with web({"/": page(b"\x89PNG\0", content_type="image/png")}) as site:
        result = await fetcher(house)(url=site.url())
    assert result.metadata["kind"] == "invalid"
    assert "is image/png (5 bytes); web_fetch shows text only" in (result.error_text or "")


@pytest.mark.parametrize(("size", "arguments", "shown"), [(FETCH_LIMIT, {}, None), (FETCH_LIMIT + 1, {}, FETCH_LIMIT)])
async def test_the_bound_of_an_answer(house: House, size: int, arguments: dict[str, int], shown: int | None) -> None:
    async with web({"/": page(b"x" * size)}) as site:
        result = await fetcher(house)(url=site.url(), **arguments)
    assert len(result.data["text"]) == (shown or size)
    assert result.metadata.get("truncated", False) == (shown is not None)
    assert (result.metadata.get("output_path") is None) == (shown is None)


async def test_a_smaller_bound_keeps_whole_letters_and_the_rest_can_be_read(house: House) -> None:
    async with web({"/": page("größe".encode(), content_type="text/plain; charset=utf-8")}) as site:
        result = await fetcher(house)(url=site.url(), max_bytes=3)
    assert (result.data["text"], result.data["total_bytes"]) == ("gr", 7)
    whole = await house.call("read", path=result.metadata["output_path"])
    assert whole.data["content"] == "größe"


async def test_a_page_larger_than_what_is_read(house: House) -> None:
    async with web({"/": page(b"x" * (11 * 2**20))}) as site:
        result = await fetcher(house)(url=site.url())
    assert result.metadata["truncated"]
    assert f"only its first {10 * 2**20} bytes" in result.data["note"]
    assert os.path.getsize(result.metadata["output_path"]) == 10 * 2**20  # noqa: ASYNC240


@pytest.mark.slow
async def test_a_large_page_is_read_as_a_whole(house: House) -> None:
    body = b"<html><body>%s<p>the end</p></body></html>" % (b"<p>One of very many paragraphs.</p>" * 20_000)
    async with web({"/": page(body, **HTML)}) as site:
        result = await fetcher(house)(url=site.url())
    assert result.type == "output", result.error_text
    with open(result.metadata["output_path"]) as file:  # noqa: ASYNC230
        assert file.read().rstrip().endswith("the end")


async def test_pages_without_text_say_so(house: House) -> None:
    async with web({"/": page(b"<html><body><script>go()</script></body></html>", **HTML)}) as site:
        result = await fetcher(house)(url=site.url())
    assert (result.data["text"].strip(), "script" in result.data["note"]) == ("", True)


async def test_rules_about_hosts_have_a_say_with_who_asks(house: House) -> None:
    everything = Rule(permission="web_fetch", action="allow")
    not_there = Rule(permission="net.fetch", pattern="b.*", action="deny")
    async with web({"/": leads_to("/page", host="b.test"), "/page": page(ARTICLE, **HTML)}) as site:
        fetch = fetcher(house, None, everything)
        assert (await fetch(url=site.url())).type == "output"
        led = await fetcher(house, None, everything, not_there)(url=site.url())
        asked = await fetcher(house, None, everything, not_there)(url=site.url("/page", host="b.test"))
    assert (led.error_text, led.metadata["kind"]) == ("agent default may not reach b.test", "denied")
    assert asked.metadata["kind"] == "denied"


async def test_a_yes_for_one_host_is_none_for_where_it_leads(house: House) -> None:
    rules = [Rule(permission="web_fetch", pattern=host, action="ask") for host in ("a.test", "b.test")]
    denied = Rule(permission="web_fetch", pattern="b.test", action="deny")
    async with web({"/": leads_to("/page", host="b.test"), "/page": page(ARTICLE, **HTML)}) as site:
        for ruled in (rules, [rules[0], denied]):
            approved = fetcher(house, None, *ruled, approved=True)
            led = await approved(url=site.url())
            assert (led.error_text, led.metadata["kind"]) == ("agent default may not reach b.test", "denied")
            assert (await approved(url=site.url("/page"))).type == "output"


@pytest.mark.parametrize("action", ["deny", "ask"])
async def test_a_rule_about_a_url_holds_wherever_it_is_met(house: House, action: Literal["deny", "ask"]) -> None:
    pages = {
        "/": leads_to("/private/x"),
        "/other": leads_to("/private/x", host="b.test"),
        "/far": leads_to("/"),
        "/escaped": leads_to("/%70rivate/x"),
        "/up": leads_to("/open/%2e%2e/private/x"),
        "/open": leads_to("/public"),
        "/public": page(b"for all"),
        "/private/x": page(b"secret"),
        "/%70rivate/x": page(b"secret"),
        "/open/%2e%2e/private/x": page(b"secret"),
    }
    async with web(pages) as site:
        everything = Rule(permission="web_fetch", action="allow")
        ruled = [
            Rule(permission="web_fetch", pattern=site.url("/private*", host), action=action)
            for host in ("a.test", "b.test")
        ]
        fetch = fetcher(house, None, everything, *ruled)
        for path in ("/", "/other", "/far", "/escaped", "/up"):
            led = await fetch(url=site.url(path))
            host = "b.test" if path == "/other" else "a.test"
            assert f"agent default may not reach http://{host}" in (led.error_text or "")
            assert led.metadata["kind"] == "denied"
        assert (await fetch(url=site.url("/open"))).data["text"] == "for all"
        written = ("/private/x", "//private/x", "/./private", "/open/../private", "/open/..%2fprivate", "/..;/private")
        for url in (*map(site.url, written), site.url("/private/x").upper().replace("/PRIVATE/X", "/private/x")):
            refused = await asked(house, everything, *ruled, url=url)
            assert refused == ("approval" if action == "ask" else "denied")


async def asked(house: House, *rules: Rule, url: str) -> str:
    """What becomes of a call: the kind of its error, or of the request to a person."""
    tool = web_fetch_tool(WebClient(everywhere()), PageReader(house.confinement))
    context = replace(house.context, authority=Authority((Layer(rules=rules),)), interactive=True)
    result = await ToolGate().run(tool, {"url": url}, context)
    return result.metadata["kind"] if isinstance(result, ToolResult) else result.kind


async def test_bad_arguments_and_bad_hosts(house: House) -> None:
    fetch = fetcher(house)
    assert (await fetch(url="http://169.254.169.254/")).metadata["kind"] == "denied"
    assert (await fetch(url="a.test")).metadata["kind"] == "invalid"
    assert (await fetch(url="http://a.test/", max_bytes=FETCH_LIMIT + 1)).metadata["kind"] == "invalid"
    assert (await fetch(url="http://a.test/", max_bytes=0)).metadata["kind"] == "invalid"


@pytest.mark.slow
async def test_pages_made_to_hurt(house: House) -> None:
    """Whatever becomes of them, it is an answer, and soon."""
    pages = {
        "/deep": b"<div>" * 200_000,
        "/attributes": b"<p " + b"a=1 " * 200_000 + b">x</p>",
        "/entities": b'<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;">]><html>&b;</html>',
        "/table": b"<table>" + b"<tr><td><table>" * 3000,
        "/links": b"<ul>" + b"<li><a href='" + b"../" * 500 + b"'>x</a>" * 2000,
        "/nothing": b"\xff\xfe",
        "/long": b"<p>" + b"word " * 1_000_000,
    }
    async with web({path: page(body, content_type="text/html") for path, body in pages.items()}) as site:
        for path in pages:
            began = time.monotonic()
            result = await fetcher(house)(url=site.url(path))
            assert time.monotonic() - began < 15, path
            assert result.type == "output" or result.metadata["kind"] in ("timeout", "backend"), (path, result)


@pytest.mark.slow
async def test_a_reader_that_hangs_or_breaks_is_ended(house: House, tmp_path: Path) -> None:
    outcomes: list[str | None] = []
    for code in ("while True: pass", "raise SystemExit('no more')"):
        # Beside the real one, where confined programs are seen.
        program = house.home.workspace / "reader.py"
        program.write_text(code)
        context = ToolContext("ses_1", "call_1", house.home.workspace, house.home.workspace)
        reader = PageReader(house.confinement, program, seconds=1)
        async with web({"/": page(ARTICLE, **HTML)}) as site:
            tool = web_fetch_tool(WebClient(everywhere()), reader)
            result = await ToolGate().run(tool, {"url": site.url()}, context)
            assert isinstance(result, ToolResult)
            outcomes.append(result.error_text)
    assert outcomes == [
        "extracting the page's text took longer than 1 s",
        "the page's text could not be extracted: no more",
    ]


def test_the_reader_is_a_file_of_the_package() -> None:
    assert EXTRACT_PROGRAM.is_file()
