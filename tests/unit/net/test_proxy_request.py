"""What a forward proxy understands, and that it never passes on what it did not."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_common.net.proxy.proxy_request import InvalidProxyRequest, parse_head, token_of

END = b"\r\n\r\n"


def head(start: str, *lines: str) -> bytes:
    return "\r\n".join((start, *lines, "", "")).encode("latin-1")


def test_a_tunnel() -> None:
    request = parse_head(head("CONNECT Example.org.:443 HTTP/1.1", "Host: other", "Proxy-Authorization: Bearer t"))
    assert (request.method, request.host, request.port, request.url) == ("CONNECT", "example.org", 443, None)
    assert request.credentials == "t"
    assert parse_head(head("CONNECT [2606::0001]:443 HTTP/1.0")).host == "2606::1"


def test_a_request_as_the_server_gets_it() -> None:
    request = parse_head(
        head(
            "POST http://example.org:8080/a%20b?q HTTP/1.1",
            "Host: evil.example",
            "Proxy-Authorization: Basic eDp0",
            "Proxy-Connection: keep-alive",
            "Connection: Keep-Alive, X-Hop, Content-Length",
            "X-Hop: 1",
            "TE: trailers",
            "Upgrade: websocket",
            "Content-Length: 3",
            "Cookie: a=b",
            "X-Ü: \xff",
        ).replace("X-Ü".encode("latin-1"), b"X-U")
    )
    assert (request.host, request.port, request.credentials) == ("example.org", 8080, "t")
    assert request.forwarded() == (
        b"POST /a%20b?q HTTP/1.1\r\nhost: example.org:8080\r\ncontent-length: 3\r\ncookie: a=b\r\nx-u: \xff\r\n"
        b"connection: close\r\n\r\n"
    )


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"GET http://a.org/ HTTP/1.1\r\n", "not complete"),
        (head("GET  http://a.org/ HTTP/1.1"), "request line"),
        (head("GET http://a.org/ HTTP/2.0"), "request line"),
        (head("GET http://a.org/"), "request line"),
        (head(" GET http://a.org/ HTTP/1.1"), "request line"),
        (head("GET http://a.org/\t HTTP/1.1"), "request line"),
        (head("G\0T http://a.org/ HTTP/1.1"), "request line"),
        (head("GET / HTTP/1.1", "Host: a.org"), "forward proxy"),
        (head("OPTIONS * HTTP/1.1"), "forward proxy"),
        (head("GET https://a.org/ HTTP/1.1"), "use CONNECT"),
        (head("GET ftp://a.org/ HTTP/1.1"), "only http"),
        (head("GET http://u:p@a.org/ HTTP/1.1"), "before the @"),
        (head("GET http://0x7f.1/ HTTP/1.1"), "odd way"),
        (head("CONNECT a.org HTTP/1.1"), "needs a port"),
        (head("CONNECT http://a.org:443 HTTP/1.1"), "host and a port"),
        (head("CONNECT u@a.org:443 HTTP/1.1"), "before the @"),
        (head("CONNECT 2130706433:443 HTTP/1.1"), "odd way"),
        (head("CONNECT a.org:443 HTTP/1.1", "Content-Length: 1"), "no body"),
        (head("GET http://a.org/ HTTP/1.1", "X: a", " folded"), "header line"),
        (head("GET http://a.org/ HTTP/1.1", "X : a"), "header line"),
        (head("GET http://a.org/ HTTP/1.1", "X"), "header line"),
        (head("GET http://a.org/ HTTP/1.1", ": a"), "header line"),
        (b"GET http://a.org/ HTTP/1.1\r\nX: a\nY: b" + END, "header line"),
        (b"GET http://a.org/ HTTP/1.1\r\nX: a\rY: b" + END, "header line"),
        (b"GET http://a.org/ HTTP/1.1\r\nX: a\0" + END, "header line"),
        (head("POST http://a.org/ HTTP/1.1", "Content-Length: 1", "Content-Length: 2"), "one number"),
        (head("POST http://a.org/ HTTP/1.1", "Content-Length: 1, 1"), "one number"),
        (head("POST http://a.org/ HTTP/1.1", "Content-Length: +1"), "one number"),
        (head("POST http://a.org/ HTTP/1.1", "Content-Length: -1"), "one number"),
        (head("POST http://a.org/ HTTP/1.1", "Content-Length: \xb2"), "one number"),
        (
            head("POST http://a.org/ HTTP/1.1", "Content-Length: 1", "Transfer-Encoding: chunked"),
            "needs a content-length",
        ),
        (head("POST http://a.org/ HTTP/1.1", "Transfer-Encoding: xchunked"), "needs a content-length"),
        (head("POST http://a.org/ HTTP/1.1", "Transfer-Encoding: gzip, chunked"), "needs a content-length"),
        (head("POST http://a.org/ HTTP/1.0", "Transfer-Encoding: chunked"), "needs a content-length"),
    ],
)
def test_what_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(InvalidProxyRequest, match=why):
        parse_head(data)


def basic(text: str) -> str:
    return f"Basic {base64.b64encode(text.encode()).decode()}"


@pytest.mark.parametrize(
    ("shown", "token"),
    [
        ("Bearer abc", "abc"),
        ("bearer  abc ", "abc"),
        (basic("agent:abc"), "abc"),
        (basic(":a:b"), "a:b"),
        (basic("agent:"), None),
        (basic("agent"), None),
        ("Basic !!!", None),
        ("Basic /w==", None),
        ("Digest abc", None),
        ("Bearer", None),
        ("", None),
    ],
)
def test_tokens(shown: str, token: str | None) -> None:
    assert token_of(shown) == token


def test_two_credentials_are_none() -> None:
    line = "Proxy-Authorization: Bearer t"
    assert parse_head(head("CONNECT a.org:443 HTTP/1.1", line, line)).credentials is None


HEADS = st.one_of(
    st.binary(max_size=200),
    st.builds(
        head,
        st.from_regex(r"[A-Z]{1,7} (http://)?[!-~]{0,30} HTTP/1\.[01]", fullmatch=True),
        st.text(max_size=40, alphabet=st.characters(max_codepoint=255)),
    ),
    st.builds(
        lambda lines: head("GET http://a.org/x HTTP/1.1", *(f"{name}: {value}" for name, value in lines)),
        st.lists(
            st.tuples(
                st.sampled_from(["Connection", "Host", "X-A", "Content-Length", "Proxy-X", "TE", "Upgrade"]),
                st.sampled_from(["x-a", "content-length, host", "1", "close", "keep-alive", ""]),
            )
        ),
    ),
)


@given(HEADS)
def test_what_is_passed_on_reads_the_same_and_holds_nothing_for_the_proxy(data: bytes) -> None:
    try:
        request = parse_head(data)
    except InvalidProxyRequest:
        return
    if request.url is None:
        return
    passed = request.forwarded()
    assert passed.endswith(END)
    assert passed.count(END) == 1
    start, *lines = passed[:-4].decode("latin-1").split("\r\n")
    assert "\r" not in passed[:-4].decode("latin-1").replace("\r\n", "")
    assert "\n" not in passed[:-4].decode("latin-1").replace("\r\n", "")
    assert start.split(" ")[1].startswith("/")
    names = [line.partition(":")[0] for line in lines]
    assert names.count("host") == 1
    assert names.count("connection") == 1
    assert lines[0] == f"host: {request.url.authority}"
    assert lines[-1] == "connection: close"
    assert not {"te", "upgrade", "keep-alive"} & set(names)
    assert not any(name.startswith("proxy-") for name in names)
    assert request.header_values("content-length") == [
        line[16:] for line in lines if line.startswith("content-length: ")
    ]
