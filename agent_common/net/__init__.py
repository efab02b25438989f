"""Transports by URL, both ends, and the one way to the web: the same call works over TCP, a unix socket and vsock."""

from typing import TYPE_CHECKING, Any

from .bearer import checked_bearer
from .endpoints import Endpoint, Tcp, Unix, Vsock, http_url, parse_endpoint, parse_endpoints, parse_http
from .http import http_client
from .listen import Listening, listen_at, serve_socket

if TYPE_CHECKING:
    from .addresses import ANYWHERE, Addresses
    from .dial import Direct, Parent, Resolver, Stream, SystemResolver, Upstream, secured
    from .egress import Admit, Bounds, Egress, Fetched
    from .forward import AdmitHost, Forward, ForwardLimits, Passage, gateway
    from .patterns import HostPatterns, split_patterns
    from .pool import HttpPool, Reply, TransportFault
    from .reach import connect, open_endpoint
    from .shares import ConnectionLimit, Shares, raise_file_limit
    from .urls import Url, canonical_host, parse_url

__all__ = [
    "ANYWHERE",
    "Addresses",
    "Admit",
    "AdmitHost",
    "Bounds",
    "ConnectionLimit",
    "Direct",
    "Egress",
    "Endpoint",
    "Fetched",
    "Forward",
    "ForwardLimits",
    "HostPatterns",
    "HttpPool",
    "Listening",
    "Parent",
    "Passage",
    "Reply",
    "Resolver",
    "Shares",
    "Stream",
    "SystemResolver",
    "Tcp",
    "TransportFault",
    "Unix",
    "Upstream",
    "Url",
    "Vsock",
    "canonical_host",
    "checked_bearer",
    "connect",
    "gateway",
    "http_client",
    "http_url",
    "listen_at",
    "open_endpoint",
    "parse_endpoint",
    "parse_endpoints",
    "parse_http",
    "parse_url",
    "raise_file_limit",
    "secured",
    "serve_socket",
    "split_patterns",
]

_ROOMS = {
    "addresses": ("ANYWHERE", "Addresses"),
    "dial": ("Direct", "Parent", "Resolver", "Stream", "SystemResolver", "Upstream", "secured"),
    "egress": ("Admit", "Bounds", "Egress", "Fetched"),
    "forward": ("AdmitHost", "Forward", "ForwardLimits", "Passage", "gateway"),
    "patterns": ("HostPatterns", "split_patterns"),
    "pool": ("HttpPool", "Reply", "TransportFault"),
    "reach": ("connect", "open_endpoint"),
    "shares": ("ConnectionLimit", "Shares", "raise_file_limit"),
    "urls": ("Url", "canonical_host", "parse_url"),
}
_HOMES = {name: home for home, names in _ROOMS.items() for name in names}


def __getattr__(name: str) -> Any:
    """The client side waits until somebody calls out: a cold start needs only the listening socket."""
    if name not in _HOMES:
        raise AttributeError(name)
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
