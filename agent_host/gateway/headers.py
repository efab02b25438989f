"""The headers of requests and answers, on their way through the host."""

from __future__ import annotations

from collections.abc import Iterable

from agent_common.errors import ToolFailure
from agent_common.net import TransportFault, Url, has_dot_segments, resolve_location

RawHeaders = list[tuple[bytes, bytes]]
_HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
_REPLACED = frozenset({b"accept-encoding", b"authorization", b"content-length", b"cookie", b"expect", b"host"})
"""Of a request: what the host writes itself, or does not pass on."""
_GUARDS: RawHeaders = [
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; sandbox"),
]
"""An agent that is taken over makes no page at the host's address, nor at that of a proxy before it."""
_PASSED = frozenset(
    {
        b"accept-ranges",
        b"allow",
        b"cache-control",
        b"content-disposition",
        b"content-language",
        b"content-length",
        b"content-range",
        b"content-type",
        b"cross-origin-resource-policy",
        b"etag",
        b"last-modified",
        b"location",
        b"retry-after",
        b"vary",
        b"x-accel-buffering",
        b"x-vercel-ai-ui-message-stream",
    }
)
"""Of an answer: what says something of it alone. Of other headers many hold for the whole address of the host, where an
agent has nothing to say: cookies, who may read it from elsewhere, logins, links, where the next visit goes."""
_USER = b"x-agent-user"
_USER_SPELLINGS = frozenset({_USER, b"x_agent_user", b"x-agent_user", b"x_agent-user"})
"""An external agent may stand behind a server that takes `_` and `-` for the same, as CGI and WSGI do."""
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_NO_BODY = frozenset({204, 304})
_AGENT = Url("http", "agent", 80, "/")
"""Where the agent is, as requests to it say."""


def request_head(method: str, target: bytes, headers: RawHeaders, *, token: str, user: str | None) -> bytes:
    """Return the head of the request to the agent. `user`: the only user that the caller may name; None: any."""
    skipped = (
        _HOP_BY_HOP
        | _REPLACED
        | _named_in_connection(headers)
        | (_USER_SPELLINGS if user is not None else frozenset[bytes]())
    )
    lines = [
        b"%b %b HTTP/1.1" % (method.encode("ascii"), target),
        b"host: agent",
        b"authorization: Bearer " + token.encode(),
        b"accept-encoding: identity",
    ]
    lines += [b"%b: %b" % header for header in headers if header[0] not in skipped]
    if user is not None:
        lines.append(b"%b: %b" % (_USER, user.encode()))
    if is_chunked(headers):
        lines.append(b"transfer-encoding: chunked")
    else:
        lines += [b"content-length: " + value for name, value in headers if name == b"content-length"]
    return b"\r\n".join(lines) + b"\r\n\r\n"


def is_chunked(headers: RawHeaders) -> bool:
    """Whether the body comes in chunks. uvicorn refuses other encodings, and a length beside them."""
    return any(name == b"transfer-encoding" for name, _ in headers)


def has_body(headers: RawHeaders) -> bool:
    """Whether a body follows the head of a request. It may be empty."""
    return any(name in (b"content-length", b"transfer-encoding") for name, _ in headers)


def answer_headers(status: int, headers: RawHeaders, target: bytes, prefix: bytes) -> RawHeaders:
    """Return the headers for the caller. `target`: what was asked of the agent, `prefix`: the path of its API at the
    host. Raises TransportFault for a body that is encoded, and for a redirect that leads out of this API."""
    if any(name == b"content-encoding" and value.strip().lower() not in (b"", b"identity") for name, value in headers):
        raise TransportFault("it has encoded its answer, although that was not asked for")
    if any(name == b"transfer-encoding" and value.strip().lower() != b"chunked" for name, value in headers):
        raise TransportFault("it has encoded its answer for the transfer in another way than in chunks")
    dropped = _named_in_connection(headers) | ({b"content-length"} if status in _NO_BODY else frozenset[bytes]())
    kept = [(name, value) for name, value in headers if name in _PASSED - dropped and name != b"location"]
    for location in (value for name, value in headers if name == b"location"):
        if (path := _own_location(location, target)) is not None:
            kept.append((b"location", prefix + path))
        elif status in _REDIRECTS:
            raise TransportFault("it redirects to another host or path")
    return kept + _GUARDS


def _own_location(location: bytes, target: bytes) -> bytes | None:
    """Return the path and query at the agent's own server; None if it leads elsewhere."""
    asked = Url(_AGENT.scheme, _AGENT.host, _AGENT.port, target.decode("latin-1"))
    try:
        found = resolve_location(asked, location.decode("latin-1"))
    except ToolFailure:
        return None
    if found.origin != _AGENT.origin or has_dot_segments(found.target):
        return None
    return found.target.encode("ascii")


def _named_in_connection(headers: Iterable[tuple[bytes, bytes]]) -> frozenset[bytes]:
    named = (value for name, value in headers if name == b"connection")
    # The length is never dropped, else the two servers could disagree about where the answer ends.
    return frozenset(part.strip().lower() for value in named for part in value.split(b",")) - {b"content-length"}
