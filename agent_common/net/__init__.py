"""Transports by URL, both ends, and the one way to the web: the same call works over TCP, a unix socket and vsock."""

from typing import TYPE_CHECKING, Any

from .client.bearer import checked_bearer
from .client.http_client import http_client
from .endpoints.endpoint import Endpoint, Tcp, Unix, Vsock, http_url, parse_endpoint, parse_endpoints, parse_http
from .endpoints.listen import Listening, listen_at, serve_socket

if TYPE_CHECKING:
    from .client.pool import HttpPool, Reply, TransportFault
    from .egress.address_policy import ANYWHERE, Addresses
    from .egress.fetch import Admit, Bounds, Egress, Fetched
    from .egress.host_patterns import HostPatterns, split_patterns
    from .egress.upstream import Direct, Parent, Resolver, Stream, SystemResolver, Upstream, secured
    from .egress.urls import Url, canonical_host, parse_url
    from .endpoints.connect import connect, open_endpoint
    from .proxy.forward_proxy import AdmitHost, Forward, ForwardLimits, Passage, gateway
    from .shares import ConnectionLimit, Shares, raise_file_limit

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
    "egress.address_policy": ("ANYWHERE", "Addresses"),
    "egress.upstream": ("Direct", "Parent", "Resolver", "Stream", "SystemResolver", "Upstream", "secured"),
    "egress.fetch": ("Admit", "Bounds", "Egress", "Fetched"),
    "proxy.forward_proxy": ("AdmitHost", "Forward", "ForwardLimits", "Passage", "gateway"),
    "egress.host_patterns": ("HostPatterns", "split_patterns"),
    "client.pool": ("HttpPool", "Reply", "TransportFault"),
    "endpoints.connect": ("connect", "open_endpoint"),
    "shares": ("ConnectionLimit", "Shares", "raise_file_limit"),
    "egress.urls": ("Url", "canonical_host", "parse_url"),
}
_HOMES = {name: home for home, names in _ROOMS.items() for name in names}


def __getattr__(name: str) -> Any:
    """The client side waits until somebody calls out: a cold start needs only the listening socket."""
    if name not in _HOMES:
        raise AttributeError(name)
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
