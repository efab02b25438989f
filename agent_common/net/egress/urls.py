"""Web addresses as we are willing to use them: one strict reading, so that nobody after us can read another one."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Literal, cast
from urllib.parse import quote, urljoin

from ...errors import ToolFailure

MAX_URL_CHARACTERS = 8192
"""Characters of a URL."""
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
    """`http` or `https`, a canonical host, and what to ask it for. There is no fragment and no user."""

    scheme: Literal["http", "https"]
    host: str
    """A name in lower-case ASCII without a dot at its end, or an address in its canonical form, without brackets."""
    port: int
    target: str
    """Path and query, ASCII."""

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
    """Raises ToolFailure that says what to mend."""
    if len(text) > MAX_URL_CHARACTERS:
        raise _invalid(text, f"is longer than {MAX_URL_CHARACTERS} characters")
    if _UNSAFE.search(text):
        raise _invalid(text, "holds a space or a control character; write a space as %20")
    found = _URL.fullmatch(text)
    if found is None:
        raise _invalid(text, "is no whole URL; begin it with http:// or https://")
    scheme = found[1].lower()
    if scheme not in PORTS:
        raise _invalid(text, f"has the scheme {scheme}; only http and https can be fetched")
    host, port = split_authority(found[2], text)
    path = quote(found[3], safe=_SAFE) or "/"
    query = quote(found[4] or "", safe=f"{_SAFE}?")
    return Url(cast(Literal["http", "https"], scheme), host, port or PORTS[scheme], path + query)


def resolve_location(base: Url, location: str) -> Url:
    """Where a redirect leads. Raises ToolFailure."""
    if _UNSAFE.search(location):
        raise _invalid(location, "is where the server leads, and holds a space or a control character")
    try:
        whole = urljoin(str(base), location)
    except ValueError as error:
        raise _invalid(location, "is where the server leads, and is no URL") from error
    return parse_url(whole)


def split_authority(text: str, shown: str | None = None) -> tuple[str, int | None]:
    """Canonical host and port, the latter if it is given. Raises ToolFailure."""
    shown = text if shown is None else shown
    if "@" in text:
        raise _invalid(shown, "holds a user name or a password, or looks as if; leave out what stands before the @")
    found = _AUTHORITY.fullmatch(text)
    if found is None:
        raise _invalid(shown, "does not name a host and a port")
    port = int(found[2]) if found[2] else None
    if port is not None and not 0 < port < 65536:
        raise _invalid(shown, "has a port outside 1 to 65535")
    return canonical_host(found[1], shown), port


def canonical_host(text: str, shown: str | None = None) -> str:
    """The one spelling of a host. Raises ToolFailure for what is no host, and for odd spellings of addresses."""
    shown = text if shown is None else shown
    if text.startswith("["):
        return _ipv6(text[1:-1], shown)
    host = _ascii(text, shown).lower().removesuffix(".")
    labels = host.split(".")
    if _NUMBER.fullmatch(labels[-1]):  # whoever reads it as an address may read another one than we do
        return _ipv4(host, shown)
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise _invalid(shown, "does not name a host; a host is like example.org")
    return host


def bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def clip(text: str) -> str:
    """A URL as an error shows it."""
    shown = text if len(text) <= MAX_SHOWN_CHARACTERS else f"{text[:MAX_SHOWN_CHARACTERS]}..."
    return shown.encode("ascii", "backslashreplace").decode()


def _ascii(host: str, shown: str) -> str:
    if host.isascii():
        return host
    import idna

    try:
        return idna.encode(host, uts46=True).decode("ascii")
    except (idna.IDNAError, UnicodeError) as error:
        raise _invalid(shown, "has a host that is no international domain name; write it in its xn-- form") from error


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
        raise _invalid(shown, "has something in brackets that is no IPv6 address") from error


def _invalid(shown: str, why: str) -> ToolFailure:
    return ToolFailure(f"url {clip(shown)!r} {why}", kind="invalid")
