"""Endpoints, `tcp://host:port`, `unix:/path` and `vsock://cid:port`, and base URLs of HTTP over each of them.

An invalid address raises ValueError with a text that says how to correct it and that can follow a setting's name.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from urllib.parse import quote, unquote, urlsplit

UNIX_SCHEME = "http+unix"
VSOCK_SCHEME = "http+vsock"
MAX_UNIX_PATH_BYTES = 107
"""The kernel's limit for the path of a socket, in bytes."""
HOST_CID = 2
LOOPBACK_CID = 1
ANY_CID = ANY_PORT = 0xFFFF_FFFF
_VSOCK = re.compile(r"([0-9]{0,10}):([0-9]{1,10})")
_MIN_CID = 1
"""Context id 0 was reserved for the hypervisor, and nothing answers on it."""


@dataclass(frozen=True, slots=True)
class Tcp:
    host: str
    """Name or address, without brackets."""
    port: int

    def __str__(self) -> str:
        return f"tcp://[{self.host}]:{self.port}" if ":" in self.host else f"tcp://{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Unix:
    path: str

    def __str__(self) -> str:
        return f"unix:{self.path}"


@dataclass(frozen=True, slots=True)
class Vsock:
    """A vsock port. `ANY_CID` listens on all context ids of this machine, `ANY_PORT` on a free port."""

    cid: int
    port: int

    def __str__(self) -> str:
        cid = "" if self.cid == ANY_CID else self.cid
        port = 0 if self.port == ANY_PORT else self.port
        return f"vsock://{cid}:{port}"


Endpoint = Tcp | Unix | Vsock


@dataclass(frozen=True, slots=True)
class HttpBase:
    """The parts of a base URL."""

    endpoint: Endpoint
    host: str
    """Value of the Host header."""
    path: str
    """Path without a slash at its end."""
    tls: bool = False


def parse_endpoint(text: str, *, listening: bool = False) -> Endpoint:
    """Parse `tcp://host:port`, `unix:/path` or `vsock://cid:port`.

    If `listening`, port 0 means a free port, and `vsock://:port` all context ids. Raises ValueError if it is malformed.
    """
    scheme, _, rest = text.partition(":")
    if scheme == "unix":
        return _unix(rest.removeprefix("//"), "unix:/run/mesh.sock")
    if scheme == "vsock" and rest.startswith("//"):
        return _vsock(rest[2:].rstrip("/"), "vsock://:8420" if listening else "vsock://2:8420", listening=listening)
    if scheme == "tcp" and rest.startswith("//"):
        return _tcp(text, listening=listening)
    raise ValueError(f"{text!r} must be like tcp://127.0.0.1:8420, unix:/run/mesh.sock or vsock://2:8420")


def parse_endpoints(text: str) -> tuple[Endpoint, ...]:
    """Parse addresses to listen on, separated by commas or spaces. Raises ValueError if one is invalid or repeated."""
    found = tuple(parse_endpoint(part, listening=True) for part in re.split(r"[,\s]+", text.strip(", \t\n")) if part)
    if twice := [one for number, one in enumerate(found) if one in found[:number] and not _asks_for_free_port(one)]:
        raise ValueError(f"{twice[0]} is named twice")
    return found


def parse_http_url(url: str) -> HttpBase:
    """Parse a base URL: `http://`, `https://`, `http+unix://%2Fpath%2Fto.sock/v1` or `http+vsock://2:8420/v1`.

    Raises ValueError if it is malformed.
    """
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise ValueError("must name a host, as in http://127.0.0.1:8420") from error
    path = parts.path.rstrip("/")
    if parts.scheme == UNIX_SCHEME:
        return HttpBase(_unix_in_url(parts.netloc, parts.path), "localhost", path)
    if parts.scheme == VSOCK_SCHEME:
        return HttpBase(_vsock(parts.netloc, "http+vsock://2:8420"), "localhost", path)
    if parts.scheme not in ("http", "https"):
        raise ValueError(f"must begin with http://, https://, {UNIX_SCHEME}:// or {VSOCK_SCHEME}://")
    endpoint = _tcp(url, default=443 if parts.scheme == "https" else 80)
    return HttpBase(endpoint, parts.netloc.rpartition("@")[2], path, parts.scheme == "https")


def http_url(endpoint: Endpoint, path: str = "") -> str:
    """Return the base URL by which programs on this machine reach the endpoint."""
    match endpoint:
        case Unix():
            return f"{UNIX_SCHEME}://{quote(endpoint.path, safe='')}{path}"
        case Vsock():
            cid = LOOPBACK_CID if endpoint.cid == ANY_CID else endpoint.cid
            return f"{VSOCK_SCHEME}://{cid}:{endpoint.port}{path}"
        case Tcp():
            host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(endpoint.host, endpoint.host)  # noqa: S104
            return f"http{str(Tcp(host, endpoint.port)).removeprefix('tcp')}{path}"


def _asks_for_free_port(endpoint: Endpoint) -> bool:
    """Whether the endpoint asks for a free port."""
    return isinstance(endpoint, Tcp | Vsock) and endpoint.port in (0, ANY_PORT)


def _tcp(url: str, *, listening: bool = False, default: int | None = None) -> Tcp:
    example = "tcp://127.0.0.1:8420" if default is None else "http://127.0.0.1:8420"
    try:
        parts = urlsplit(url)
        host = parts.hostname
        port = parts.port
    except ValueError as error:
        raise ValueError(f"must name a host, and a port from 1 to 65535, as in {example}") from error
    port = default if port is None else port
    if not host or port is None or (port == 0 and not listening):
        raise ValueError(f"must name a host{' and a port' if default is None else ''}, as in {example}")
    return Tcp(host, port)


def _unix(path: str, example: str) -> Unix:
    if not path.startswith("/") or path.endswith("/") or "\0" in path:
        raise ValueError(f"must name a socket by its whole path, as in {example}")
    if len(os.fsencode(path)) > MAX_UNIX_PATH_BYTES:
        raise ValueError(f"has a socket's path of more than {MAX_UNIX_PATH_BYTES} bytes; choose a shorter folder")
    return Unix(path)


def _unix_in_url(netloc: str, rest: str) -> Unix:
    example = f"{UNIX_SCHEME}://%2Frun%2Fmesh.sock"
    if not netloc and rest:
        raise ValueError(f"must spell the slashes of the socket's path as %2F, as in {example}")
    return _unix(unquote(netloc), example)


def _vsock(text: str, example: str, *, listening: bool = False) -> Vsock:
    found = _VSOCK.fullmatch(text)
    if found is None or not (found[1] or listening):
        raise ValueError(f"must name a context id and a port in numbers, as in {example} ({HOST_CID} is the host)")
    cid = int(found[1] or ANY_CID)
    port = int(found[2])
    if not (_MIN_CID <= cid < ANY_CID or (listening and not found[1])):
        raise ValueError(f"must name a context id from {_MIN_CID} to {ANY_CID - 1}, as in {example}")
    if port == 0 and listening:
        port = ANY_PORT
    elif not 0 < port < ANY_PORT:
        raise ValueError(f"must name a port from 1 to {ANY_PORT - 1}, as in {example}")
    return Vsock(cid, port)
