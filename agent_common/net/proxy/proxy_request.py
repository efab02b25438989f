"""Parse requests to the forward proxy. Parsing is strict, because a server may read an ambiguous request
differently."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass

from ...errors import AgentRuntimeError, ToolFailure
from ..egress.urls import Url, parse_url, split_authority

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_LINE = re.compile(rf"({_TOKEN.pattern}) ([\x21-\x7e]+) HTTP/1\.([01])")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_HOP_BY_HOP = frozenset({"connection", "keep-alive", "proxy-connection", "te", "upgrade"})
_FRAMING = frozenset({"content-length", "transfer-encoding"})


class InvalidProxyRequest(AgentRuntimeError):
    """The request is malformed, or not one for a forward proxy."""


@dataclass(frozen=True, slots=True)
class ProxyRequest:
    """A request: `CONNECT host:port`, or another method with an absolute URL."""

    method: str
    host: str
    port: int
    url: Url | None
    """The URL; None for CONNECT."""
    minor: str
    headers: tuple[tuple[str, str], ...]
    """Headers in order, with lower-case names."""

    def header_values(self, name: str) -> list[str]:
        return [value for given, value in self.headers if given == name]

    @property
    def credentials(self) -> str | None:
        """The client's token, or None."""
        shown = self.header_values("proxy-authorization")
        return token_of(shown[0]) if len(shown) == 1 else None

    @property
    def body_bytes(self) -> int:
        """The length of the body. What comes after it is another request, which nobody has checked."""
        return int((self.header_values("content-length") or ["0"])[0])

    def forwarded(self) -> bytes:
        """Return the head to send to the server: without headers for the proxy, and with `connection: close`."""
        assert self.url is not None  # noqa: S101  CONNECT has no head to forward
        dropped = set(_HOP_BY_HOP)
        for value in self.header_values("connection"):
            dropped |= {name.strip().lower() for name in value.split(",")} - _FRAMING
        kept = [
            f"{name}: {value}\r\n"
            for name, value in self.headers
            if name != "host" and name not in dropped and not name.startswith("proxy-")
        ]
        start = f"{self.method} {self.url.target} HTTP/1.{self.minor}\r\nhost: {self.url.authority}\r\n"
        return f"{start}{''.join(kept)}connection: close\r\n\r\n".encode("latin-1")


def parse_head(data: bytes) -> ProxyRequest:
    """Parse a request's head, which ends with an empty line. Raises InvalidProxyRequest."""
    if not data.endswith(b"\r\n\r\n"):
        raise InvalidProxyRequest("the request is not complete")
    lines = data[:-4].decode("latin-1").split("\r\n")
    start = _LINE.fullmatch(lines[0])
    if start is None:
        raise InvalidProxyRequest("the request line is not METHOD TARGET HTTP/1.1")
    method, target, minor = start.groups()
    headers = tuple(_header(line) for line in lines[1:])
    host, port, url = _destination(method, target)
    request = ProxyRequest(method, host, port, url, minor, headers)
    _check_framing(request)
    return request


def token_of(authorization: str) -> str | None:
    """Return the token of `Bearer TOKEN`, or the password of `Basic` for any user; None if there is none."""
    scheme, _, rest = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return rest.strip() or None
    if scheme.lower() != "basic":
        return None
    try:
        user = base64.b64decode(rest.strip(), validate=True).decode()
    except (binascii.Error, ValueError):
        return None
    return user.partition(":")[2] or None


def _header(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    value = value.strip(" \t")
    if not colon or not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
        raise InvalidProxyRequest("a header line is not NAME: VALUE")
    return name.lower(), value


def _destination(method: str, target: str) -> tuple[str, int, Url | None]:
    try:
        if method == "CONNECT":
            host, port = split_authority(target)
            if port is None:
                raise InvalidProxyRequest("CONNECT needs a port, as in example.org:443")
            return host, port, None
        if target.startswith("/") or target == "*":
            raise InvalidProxyRequest("this is a forward proxy: request an absolute URL, or a tunnel with CONNECT")
        url = parse_url(target)
    except ToolFailure as failure:
        raise InvalidProxyRequest(failure.message) from failure
    if url.scheme != "http":
        raise InvalidProxyRequest("https needs a tunnel: use CONNECT")
    return url.host, url.port, url


def _check_framing(request: ProxyRequest) -> None:
    """Raise InvalidProxyRequest if the end of the body is ambiguous."""
    lengths = request.header_values("content-length")
    codings = request.header_values("transfer-encoding")
    if len(lengths) > 1 or not all(re.fullmatch(r"[0-9]{1,15}", length) for length in lengths):
        raise InvalidProxyRequest("content-length must be one number")
    if codings:
        raise InvalidProxyRequest("a body needs a content-length; the end of a chunked one is not looked for")
    if request.url is None and lengths not in ([], ["0"]):
        raise InvalidProxyRequest("CONNECT has no body")
