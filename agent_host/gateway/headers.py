"""The headers of requests and answers, on their way through the host."""

from __future__ import annotations

from collections.abc import Iterable

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
_REPLACED = frozenset({b"authorization", b"content-length", b"cookie", b"expect", b"host"})
"""Of a request: what the host writes itself, or does not pass on."""
_GUARDS: RawHeaders = [
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; sandbox"),
]
"""An agent that is taken over makes no page at the host's address, nor at that of a proxy before it."""
_OWN = frozenset({b"date", b"server", b"set-cookie"}) | {name for name, _ in _GUARDS}
"""Of an answer: what the host or its server adds itself. An agent sets no cookies at the host's address."""
_USER = b"x-agent-user"
_USER_SPELLINGS = frozenset({_USER, b"x_agent_user", b"x-agent_user", b"x_agent-user"})
"""An external agent may stand behind a server that takes `_` and `-` for the same, as CGI and WSGI do."""
_PATHS = frozenset({b"location", b"content-location"})


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


def answer_headers(headers: RawHeaders, prefix: bytes) -> RawHeaders:
    """Return the headers for the caller. `prefix`: the path of the agent's API at the host."""
    skipped = _HOP_BY_HOP | _OWN | _named_in_connection(headers)
    kept = [(name, _absolute(name, value, prefix)) for name, value in headers if name not in skipped]
    return kept + _GUARDS


def _absolute(name: bytes, value: bytes, prefix: bytes) -> bytes:
    """Return the value; a path of the agent's server becomes one of the host's."""
    return prefix + value if name in _PATHS and value.startswith(b"/") and not value.startswith(b"//") else value


def _named_in_connection(headers: Iterable[tuple[bytes, bytes]]) -> frozenset[bytes]:
    named = (value for name, value in headers if name == b"connection")
    # The length is never dropped, else the two servers could disagree about where the answer ends.
    return frozenset(part.strip().lower() for value in named for part in value.split(b",")) - {b"content-length"}
