"""Which headers of a request are passed to a service, and which of its answer to the agent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .errors import InvalidTarget

RawHeaders = list[tuple[bytes, bytes]]
# fmt: off
_NOT_SENT = frozenset((
    # between two programs, or written by the host itself
    "connection", "keep-alive", "proxy-connection", "proxy-authenticate", "proxy-authorization", "te", "trailer",
    "transfer-encoding", "upgrade", "host", "content-length", "expect", "http2-settings",
    # credentials of the agent, for the host and not for the service
    "authorization", "cookie", "cookie2",
    # in another encoding, or in pieces, an echo of the secret would not be found
    "accept-encoding", "accept-charset", "range", "if-range", "content-encoding", "request-range",
    # another host, path, method or client than this one
    "forwarded", "via", "x-real-ip", "x-original-url", "x-rewrite-url", "x-original-uri", "x-host", "x-http-method",
    "x-http-method-override", "x-method-override", "x-original-host", "x-original-method", "true-client-ip",
    "x-client-ip", "x-cluster-client-ip", "x-remote-user", "remote-user", "origin", "referer", "max-forwards",
))
_NOT_SENT_PREFIXES = ("x-forwarded-", "proxy-", "sec-", "x-agent-", "x-mesh-", "cf-connecting-")
_NOT_PASSED = frozenset((
    "connection", "keep-alive", "proxy-connection", "proxy-authenticate", "te", "trailer", "transfer-encoding",
    "upgrade", "content-length", "content-encoding", "set-cookie", "set-cookie2", "www-authenticate", "date", "server",
    "refresh", "alt-svc", "content-location", "strict-transport-security", "clear-site-data", "public-key-pins",
    "authorization", "x-mesh-service",
))
# fmt: on


def request_headers(given: RawHeaders, credential: str | None) -> RawHeaders:
    """Return the headers to pass on. `credential`: the name of the header that the host adds, in lower case.

    Raises InvalidTarget for a value with control characters."""
    named = {token.strip().lower() for name, value in given if name == b"connection" for token in value.split(b",")}
    passed: RawHeaders = []
    for name, value in given:
        # Many servers take `_` and `-` for the same.
        plain = name.decode("latin-1").lower().replace("_", "-")
        withheld = plain in _NOT_SENT or plain.startswith(_NOT_SENT_PREFIXES) or name.lower() in named
        if withheld or (credential is not None and plain == credential.replace("_", "-")):
            continue
        if any((byte < 0x20 and byte != 0x09) or byte == 0x7F for byte in value):
            raise InvalidTarget(f"{plain[:100]}: has a control character")
        passed.append((name, value))
    return passed


def answer_headers(given: Mapping[str, str]) -> Iterable[tuple[bytes, bytes]]:
    """Yield the headers of an answer to pass on."""
    for name, value in given.items():
        if name not in _NOT_PASSED and not name.startswith("proxy-"):
            yield name.encode("latin-1"), value.encode("latin-1")
