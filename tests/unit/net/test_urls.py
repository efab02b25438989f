"""One reading of a URL, and no odd spelling of an address among them."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_common.net.egress.host_patterns import HostPatterns, split_patterns
from agent_common.net.egress.urls import (
    MAX_URL_CHARACTERS,
    as_servers_read,
    canonical_host,
    parse_url,
    resolve_location,
)
from agent_runtime.errors import ToolFailure


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("http://example.org", "http://example.org/"),
        ("HTTPS://Example.ORG:443/a/../b?q=1#part", "https://example.org/a/../b?q=1"),
        ("http://example.org.:8080/", "http://example.org:8080/"),
        ("http://example.org:/x", "http://example.org/x"),
        ("http://example.org?q=/@", "http://example.org/?q=/@"),
        ("http://bücher.example/größe?ß=%20", "http://xn--bcher-kva.example/gr%C3%B6%C3%9Fe?%C3%9F=%20"),
        ("http://[2606:2800:0220:1::0001]:80/", "http://[2606:2800:220:1::1]/"),
        ("http://\uff11\uff12\uff17.\uff10.\uff10.\uff11/", "http://127.0.0.1/"),
        ("http://127。0。0。1/", "http://127.0.0.1/"),
        ("http://ⓛocalhost/", "http://localhost/"),
        ("http://8.8.8.8./", "http://8.8.8.8/"),
    ],
)
def test_what_is_read(text: str, read: str) -> None:
    assert str(parse_url(text)) == read
    assert parse_url(read) == parse_url(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("example.org", "begin it with http"),
        ("//example.org/", "begin it with http"),
        ("http:/example.org/", "begin it with http"),
        ("ftp://example.org/", "only http and https"),
        ("file:///etc/passwd", "only http and https"),
        ("http://user@example.org/", "before the @"),
        ("http://example.org@127.0.0.1/", "before the @"),
        ("http://u:p@example.org/", "before the @"),
        ("http://127.0.0.1\\@example.org/", "before the @"),
        ("http://example.org\\.evil/", "name a host"),
        ("http://exa mple.org/", "%20"),
        ("http://example.org/\r\nhost: x", "%20"),
        ("http://example.org/\ud800", "%20"),
        ("http://2130706433/", "odd way"),
        ("http://0x7f000001/", "odd way"),
        ("http://0x7f.1/", "odd way"),
        ("http://127.1/", "odd way"),
        ("http://0177.0.0.1/", "odd way"),
        ("http://127.0.0.01/", "odd way"),
        ("http://foo.0x/", "odd way"),
        ("http://1.2.3.4.5/", "odd way"),
        ("http://%31%32%37.0.0.1/", "odd way"),
        ("http://%6cocalhost/", "name a host"),
        ("http://[fe80::1%25eth0]/", "zone"),
        ("http://[127.0.0.1]/", "not an IPv6"),
        ("http://[::1/", "name a host"),
        ("http://::1/", "host and a port"),
        ("http://example.org:0/", "outside 1 to 65535"),
        ("http://example.org:65536/", "outside 1 to 65535"),
        ("http://example.org:1e3/", "host and a port"),
        ("http://example.org:٨٠/", "host and a port"),
        ("http:///path", "name a host"),
        ("http://a..b/", "name a host"),
        ("http://-a.org/", "name a host"),
        (f"http://{'a' * 64}.org/", "name a host"),
        ("http://xn--\u0661.org/", "xn-- form"),
        (f"http://example.org/{'a' * MAX_URL_CHARACTERS}", "longer"),
    ],
)
def test_what_is_refused(text: str, why: str) -> None:
    with pytest.raises(ToolFailure, match=why) as failure:
        parse_url(text)
    assert failure.value.kind == "invalid"
    assert len(failure.value.message) < 500


@given(st.text(max_size=40), st.text(max_size=10))
def test_a_url_that_is_read_is_ascii_and_means_the_same_to_others(host: str, rest: str) -> None:
    try:
        url = parse_url(f"http://{host}/{rest}")
    except ToolFailure:
        return
    text = str(url)
    assert text.isascii()
    assert not set(text) & set(" \r\n\t\\")
    assert parse_url(text) == url
    others = urlsplit(text)
    assert (others.hostname, others.port or 80) == (url.host, url.port)
    assert others.username is None


@given(st.text(alphabet="0123456789abcdefxX.:", min_size=1, max_size=20))
def test_what_ends_in_a_number_is_an_address_or_refused(text: str) -> None:
    try:
        host = canonical_host(text)
    except ToolFailure:
        return
    last = host.split(".")[-1]
    if last.isdigit() or last.startswith("0x"):
        assert str(ipaddress.IPv4Address(host)) == host


@pytest.mark.parametrize(
    ("location", "where"),
    [
        ("/next", "https://a.org/next"),
        ("next?q", "https://a.org/x/next?q"),
        ("//b.org", "https://b.org/"),
        ("http://b.org/", "http://b.org/"),
        ("?q=2", "https://a.org/x/y?q=2"),
    ],
)
def test_where_a_redirect_leads(location: str, where: str) -> None:
    assert str(resolve_location(parse_url("https://a.org/x/y?q=1"), location)) == where


@pytest.mark.parametrize("location", ["http://[", "javascript:1", "file:///etc", "http://a@b/", "/a b", "\t//b.org"])
def test_redirects_to_nowhere_are_refused(location: str) -> None:
    with pytest.raises(ToolFailure):
        resolve_location(parse_url("https://a.org/"), location)


@pytest.mark.parametrize(
    ("target", "read"),
    [
        ("", "/"),
        ("/a/b", "/a/b"),
        ("/a/b/", "/a/b/"),
        ("/a/..", "/"),
        ("/a/b/..", "/a/"),
        ("/open/../private/x", "/private/x"),
        ("/open/..%2fprivate", "/private"),
        ("/open/%2e%2E/private", "/private"),
        ("/open/%252e%252e/private", "/private"),
        ("/open\\..\\private", "/private"),
        ("/../../private/", "/private/"),
        ("//private//x", "/private/x"),
        ("/./private/./x/.", "/private/x/"),
        ("/private;v=1/x;y", "/private/x"),
        ("/..;/private", "/private"),
        ("/a/?b=/../c//d%20e", "/a/?b=/../c//d e"),
    ],
)
def test_how_a_lenient_server_reads_a_url(target: str, read: str) -> None:
    assert as_servers_read(parse_url(f"HTTPS://A.org{target}#x")) == f"https://a.org{read}"


def test_patterns() -> None:
    patterns = HostPatterns.from_patterns(["Example.org", "*.python.org", "[::1]".strip("[]"), "bücher.example"])
    assert all(
        map(patterns.match, ("example.org", "docs.python.org", "a.b.python.org", "::1", "xn--bcher-kva.example"))
    )
    assert not any(
        map(patterns.match, ("python.org", "xexample.org", "a.example.org", "evilpython.org", "example.org.evil"))
    )
    assert HostPatterns.from_patterns(["*"]).match("anything.example")
    assert not HostPatterns.from_patterns([]).match("anything.example")
    assert split_patterns(" example.org, *.python.org,, \n*") == ["example.org", "*.python.org", "*"]
    assert split_patterns(" , ") == []
    for wrong in ("*.*", "a*", "http://a.org", "a.org:80", "*.", ""):
        with pytest.raises(ValueError, match="is not a host"):
            HostPatterns.from_patterns([wrong])
