"""Strict parsing of web URLs into one canonical form, so that no other program reads the same URL differently."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from posixpath import normpath
from typing import Literal, cast
from urllib.parse import quote, unquote, urljoin

from ...errors import ToolFailure

MAX_URL_CHARACTERS = 8192
"""Most characters of a URL."""
MAX_SHOWN_CHARACTERS = 200
PORTS = {"http": 80, "https": 443}

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^?#]*)(\?[^#]*)?(?:#.*)?", re.DOTALL)
_UNSAFE = re.compile(r"[\x00-\x20\x7f\ud800-\udfff]")
_AUTHORITY = re.compile(r"(\[[^\]]*\]|[^:]*)(?::([0-9]{0,5}))?")
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_NUMBER = re.compile(r"[0-9]+|0x.*")
_SAFE = "!$&'()*+,;=:@/~%"


@dataclass(frozen=True, slots=True)
class Url:
    """A URL with the scheme `http` or `https` and a canonical host, without fragment and user."""

    scheme: Literal["http", "https"]
    host: str
    """A name in lower-case ASCII without a final dot, or an address in canonical form without brackets."""
    port: int
    target: str
    """Path and query, in ASCII."""

    @property
    def authority(self) -> str:
        """The value of the Host header."""
        host = bracketed(self.host)
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> tuple[str, str, int]:
        return self.scheme, self.host, self.port

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"


def parse_url(text: str) -> Url:
    """Parse a URL. Raises ToolFailure that says how to correct it."""
    if len(text) > MAX_URL_CHARACTERS:
        raise _invalid(text, f"is longer than {MAX_URL_CHARACTERS} characters")
    if _UNSAFE.search(text):
        raise _invalid(text, "contains a space or a control character; write a space as %20")
    found = _URL.fullmatch(text)
    if found is None:
        raise _invalid(text, "is not an absolute URL; begin it with http:// or https://")
    scheme = found[1].lower()
    if scheme not in PORTS:
        raise _invalid(text, f"has the scheme {scheme}; only http and https can be fetched")
    host, port = split_authority(found[2], text)
    path = quote(found[3], safe=_SAFE) or "/"
    query = quote(found[4] or "", safe=f"{_SAFE}?")
    return Url(cast(Literal["http", "https"], scheme), host, port or PORTS[scheme], path + query)


def resolve_location(base: Url, location: str) -> Url:
    """Return the target of a redirect. Raises ToolFailure if it is not a valid URL."""
    if _UNSAFE.search(location):
        raise _invalid(location, "is the target of a redirect, and contains a space or a control character")
    try:
        whole = urljoin(str(base), location)
    except ValueError as error:
        raise _invalid(location, "is the target of a redirect, and is not a URL") from error
    return parse_url(whole)


def has_dot_segments(target: str) -> bool:
    """Whether a program could take a part of the path for `.` or `..`, also in escapes or behind a backslash."""
    path = re.sub("%5c", "/", re.sub("%2e", ".", target.partition("?")[0], flags=re.I), flags=re.I)
    return any(part.partition(";")[0] in (".", "..") for part in path.replace("\\", "/").split("/"))


def as_servers_read(url: Url) -> str:
    """Return the URL as a lenient server reads it: without escapes, dot segments, repeated slashes and parameters of
    segments. A rule about `/private` has to hold for `/open/..%2fprivate` and `//private;v=1` too."""
    path, mark, query = url.target.partition("?")
    path = re.sub(";[^/]*", "", unquote(unquote(path)).replace("\\", "/"))
    end = "/" if path.endswith(("/", "/.", "/..")) else ""
    plain = normpath(f"/{path.lstrip('/')}").rstrip("/") + end
    return f"{url.scheme}://{url.authority}{plain or '/'}{mark}{unquote(query)}"


def split_authority(text: str, shown: str | None = None) -> tuple[str, int | None]:
    """Return the canonical host, and the port or None. Raises ToolFailure if the text is malformed."""
    shown = text if shown is None else shown
    if "@" in text:
        raise _invalid(shown, "contains a user name or a password, or looks like it; leave out the part before the @")
    found = _AUTHORITY.fullmatch(text)
    if found is None:
        raise _invalid(shown, "does not name a host and a port")
    port = int(found[2]) if found[2] else None
    if port is not None and not 0 < port < 65536:
        raise _invalid(shown, "has a port outside 1 to 65535")
    return canonical_host(found[1], shown), port


def canonical_host(text: str, shown: str | None = None) -> str:
    """Return the canonical spelling of a host. Raises ToolFailure if it is not a host or an oddly spelled address."""
    shown = text if shown is None else shown
    if text.startswith("["):
        return _ipv6(text[1:-1], shown)
    host = _ascii(text, shown).lower().removesuffix(".")
    labels = host.split(".")
    if _NUMBER.fullmatch(labels[-1]):  # other programs may read it as an address
        return _ipv4(host, shown)
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise _invalid(shown, "does not name a host; a host is like example.org")
    return host


def bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def clip(text: str) -> str:
    """Shorten a URL for an error message."""
    shown = text if len(text) <= MAX_SHOWN_CHARACTERS else f"{text[:MAX_SHOWN_CHARACTERS]}..."
    return shown.encode("ascii", "backslashreplace").decode()


def _ascii(host: str, shown: str) -> str:
    if host.isascii():
        return host
    import idna

    try:
        return idna.encode(host, uts46=True).decode("ascii")
    except (idna.IDNAError, UnicodeError) as error:
        raise _invalid(shown, "has an invalid international domain name; write it in its xn-- form") from error


def _ipv4(host: str, shown: str) -> str:
    try:
        return str(ipaddress.IPv4Address(host))
    except ValueError as error:
        raise _invalid(shown, "spells an address in an odd way; write it as four decimal numbers") from error


def _ipv6(text: str, shown: str) -> str:
    if "%" in text:
        raise _invalid(shown, "has an address with a zone; such an address is only valid on one link")
    try:
        return str(ipaddress.IPv6Address(text))
    except ValueError as error:
        raise _invalid(shown, "has brackets around a text that is not an IPv6 address") from error


def _invalid(shown: str, why: str) -> ToolFailure:
    return ToolFailure(f"url {clip(shown)!r} {why}", kind="invalid")
