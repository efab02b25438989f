"""Transports by URL, both ends, and the one way to the web: the same call works over TCP, a unix socket and vsock."""

from typing import TYPE_CHECKING, Any

from .client.bearer import checked_bearer
from .client.http_client import http_client
from .endpoints.endpoint import Endpoint, Tcp, Unix, Vsock, http_url, parse_endpoint, parse_endpoints, parse_http
from .endpoints.listen import ListeningSocket, listen_at, serve_socket

if TYPE_CHECKING:
    from .client.pool import HttpPool, HttpResponse, TransportFault
    from .egress.address_policy import ANYWHERE, AddressPolicy
    from .egress.fetch import Admit, FetchedPage, FetchLimits, WebClient
    from .egress.host_patterns import HostPatterns, split_patterns
    from .egress.upstream import ByteStream, DirectUpstream, ProxyUpstream, Resolver, SystemResolver, Upstream, secured
    from .egress.urls import Url, canonical_host, parse_url
    from .endpoints.connect import connect, open_endpoint
    from .proxy.forward_proxy import AdmitHost, ConnectionRecord, ForwardProxy, ForwardProxyLimits, gateway
    from .shares import ConnectionLimit, ShareCounter, raise_file_limit

__all__ = [
    "ANYWHERE",
    "AddressPolicy",
    "Admit",
    "AdmitHost",
    "ByteStream",
    "ConnectionLimit",
    "ConnectionRecord",
    "DirectUpstream",
    "Endpoint",
    "FetchLimits",
    "FetchedPage",
    "ForwardProxy",
    "ForwardProxyLimits",
    "HostPatterns",
    "HttpPool",
    "HttpResponse",
    "ListeningSocket",
    "ProxyUpstream",
    "Resolver",
    "ShareCounter",
    "SystemResolver",
    "Tcp",
    "TransportFault",
    "Unix",
    "Upstream",
    "Url",
    "Vsock",
    "WebClient",
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
    "egress.address_policy": ("ANYWHERE", "AddressPolicy"),
    "egress.upstream": (
        "DirectUpstream",
        "ProxyUpstream",
        "Resolver",
        "ByteStream",
        "SystemResolver",
        "Upstream",
        "secured",
    ),
    "egress.fetch": ("Admit", "FetchLimits", "WebClient", "FetchedPage"),
    "proxy.forward_proxy": ("AdmitHost", "ForwardProxy", "ForwardProxyLimits", "ConnectionRecord", "gateway"),
    "egress.host_patterns": ("HostPatterns", "split_patterns"),
    "client.pool": ("HttpPool", "HttpResponse", "TransportFault"),
    "endpoints.connect": ("connect", "open_endpoint"),
    "shares": ("ConnectionLimit", "ShareCounter", "raise_file_limit"),
    "egress.urls": ("Url", "canonical_host", "parse_url"),
}
_HOMES = {name: home for home, names in _ROOMS.items() for name in names}


def __getattr__(name: str) -> Any:
    """The client side waits until somebody calls out: a cold start needs only the listening socket."""
    if name not in _HOMES:
        raise AttributeError(name)
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
