"""Addresses as people write them, and what they are told about wrong ones."""

from __future__ import annotations

import pytest

from agent_common.net import Endpoint, Tcp, Unix, Vsock, http_url, parse_endpoint, parse_endpoints, parse_http_url

ANY = 0xFFFFFFFF
LONG = "/" + "x" * 107


@pytest.mark.parametrize(
    ("text", "endpoint"),
    [
        ("tcp://127.0.0.1:8420", Tcp("127.0.0.1", 8420)),
        ("tcp://[::1]:80", Tcp("::1", 80)),
        ("unix:/run/mesh.sock", Unix("/run/mesh.sock")),
        ("unix:///run/mesh.sock", Unix("/run/mesh.sock")),
        ("unix:/run/with space,no", Unix("/run/with space,no")),
        ("vsock://2:2048", Vsock(2, 2048)),
        ("vsock://3:4000000000", Vsock(3, 4000000000)),
    ],
)
def test_an_address_to_dial(text: str, endpoint: Endpoint) -> None:
    assert parse_endpoint(text) == endpoint
    assert parse_endpoint(str(endpoint)) == endpoint


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "must be like tcp://"),
        ("/run/mesh.sock", "must be like tcp://"),
        ("127.0.0.1:80", "must be like tcp://"),
        ("http://127.0.0.1:80", "must be like tcp://"),
        ("vsock:2:80", "must be like tcp://"),
        ("tcp://127.0.0.1", "must name a host and a port"),
        ("tcp://:80", "must name a host and a port"),
        ("tcp://a:0", "must name a host and a port"),
        ("tcp://a:70000", "a port from 1 to 65535"),
        ("unix:run/mesh.sock", "whole path, as in unix:/run/mesh.sock"),
        ("unix://run/mesh.sock", "whole path"),
        ("unix:@abstract", "whole path"),
        ("unix:/run/", "whole path"),
        ("unix:/a\0b", "whole path"),
        (f"unix:{LONG}", "more than 107 bytes"),
        ("vsock://:80", "must name a context id and a port in numbers"),
        ("vsock://host:80", "in numbers"),
        ("vsock://2", "in numbers"),
        ("vsock://0:80", "a context id from 1"),
        (f"vsock://{ANY}:80", "a context id from 1"),
        ("vsock://2:0", "a port from 1 to 4294967294"),
        (f"vsock://2:{ANY}", "a port from 1"),
    ],
)
def test_a_wrong_address_says_how_to_mend_it(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_endpoint(text)


def test_addresses_to_listen_on() -> None:
    assert parse_endpoints("unix:/a.sock, vsock://:8420 tcp://0.0.0.0:0,tcp://0.0.0.0:0,vsock://:0,") == (
        *(Unix("/a.sock"), Vsock(ANY, 8420), Tcp("0.0.0.0", 0), Tcp("0.0.0.0", 0), Vsock(ANY, ANY)),  # noqa: S104
    )
    assert parse_endpoints("  ") == ()
    with pytest.raises(ValueError, match="unix:/a is named twice"):
        parse_endpoints("unix:/a,unix:///a")


@pytest.mark.parametrize(
    ("url", "endpoint", "host", "path", "tls"),
    [
        ("http://127.0.0.1:8420/v1/", Tcp("127.0.0.1", 8420), "127.0.0.1:8420", "/v1", False),
        ("http://mesh", Tcp("mesh", 80), "mesh", "", False),
        ("https://user@api.test/v1", Tcp("api.test", 443), "api.test", "/v1", True),
        ("http+unix://%2Frun%2Fa%20b.sock/v1", Unix("/run/a b.sock"), "localhost", "/v1", False),
        ("http+vsock://2:8420/v1", Vsock(2, 8420), "localhost", "/v1", False),
        ("http+vsock://2:70000", Vsock(2, 70000), "localhost", "", False),
    ],
)
def test_base_urls(url: str, endpoint: Endpoint, host: str, path: str, tls: bool) -> None:
    base = parse_http_url(url)
    assert (base.endpoint, base.host, base.path, base.tls) == (endpoint, host, path, tls)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("ftp://x", r"must begin with http://, https://, http\+unix:// or http\+vsock://"),
        ("unix:/run/mesh.sock", "must begin with"),
        ("http://", "must name a host"),
        ("http://h:port", "a port from 1 to 65535"),
        ("http://h:0", "must name a host"),
        ("http+unix:///run/mesh.sock/v1", "slashes of the socket's path as %2F"),
        ("http+unix://run", "by its whole path, as in http"),
        ("http+vsock://8420", "in numbers, as in http"),
        ("http+vsock://:8420/v1", "in numbers, as in http"),
    ],
)
def test_a_wrong_base_url_says_how_to_mend_it(url: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_http_url(url)


def test_the_url_of_what_listens() -> None:
    everywhere = {Tcp("0.0.0.0", 1): "http://127.0.0.1:1", Tcp("::", 1): "http://[::1]:1"}  # noqa: S104
    more = {
        Unix("/run/a b"): "http+unix://%2Frun%2Fa%20b",
        Vsock(ANY, 8420): "http+vsock://1:8420",
        Vsock(3, 8420): "http+vsock://3:8420",
    }
    for endpoint, url in (everywhere | more).items():
        assert http_url(endpoint) == url
        assert http_url(endpoint, "/v1") == f"{url}/v1"
        parse_http_url(url)
