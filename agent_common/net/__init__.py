"""Servers and clients by URL over TCP, unix sockets and vsock, and the one client for the public web."""

from typing import TYPE_CHECKING, Any

from .client.bearer import checked_bearer
from .endpoints.endpoint import Endpoint, Tcp, Unix, Vsock, http_url, parse_endpoint, parse_endpoints, parse_http_url
from .endpoints.listen import ListeningSocket, bind_other_loopback, bind_tcp_socket, listen_at

if TYPE_CHECKING:
    from .client.connection import HttpConnection
    from .client.pool import HttpPool, HttpResponse, SizedStream, TransportFault
    from .client.tls import NAMING_VARIABLES, authorities_pem, check_authorities, public_tls, trusting_tls
    from .egress.address_policy import ANY_ADDRESS, AddressPolicy
    from .egress.content_encoding import Inflater
    from .egress.fetch import FetchedPage, FetchLimits, UrlCheck, WebClient
    from .egress.host_patterns import HostPatterns, split_patterns
    from .egress.http_request import HttpExchange
    from .egress.post import post
    from .egress.upstream import (
        ByteStream,
        DirectUpstream,
        ProxyUpstream,
        Resolver,
        SystemResolver,
        Upstream,
        upgrade_to_tls,
    )
    from .egress.urls import Url, as_servers_read, canonical_host, has_dot_segments, parse_url, resolve_location
    from .endpoints.connect import connect, open_endpoint, open_socket
    from .proxy.forward_proxy import ConnectionRecord, ForwardProxy, ForwardProxyLimits, HostCheck, unix_socket_proxy
    from .shares import ConnectionLimit, ShareCounter, fair_share, fits_share, raise_file_limit

__all__ = [
    "ANY_ADDRESS",
    "NAMING_VARIABLES",
    "AddressPolicy",
    "ByteStream",
    "ConnectionLimit",
    "ConnectionRecord",
    "DirectUpstream",
    "Endpoint",
    "FetchLimits",
    "FetchedPage",
    "ForwardProxy",
    "ForwardProxyLimits",
    "HostCheck",
    "HostPatterns",
    "HttpConnection",
    "HttpExchange",
    "HttpPool",
    "HttpResponse",
    "Inflater",
    "ListeningSocket",
    "ProxyUpstream",
    "Resolver",
    "ShareCounter",
    "SizedStream",
    "SystemResolver",
    "Tcp",
    "TransportFault",
    "Unix",
    "Upstream",
    "Url",
    "UrlCheck",
    "Vsock",
    "WebClient",
    "as_servers_read",
    "authorities_pem",
    "bind_other_loopback",
    "bind_tcp_socket",
    "canonical_host",
    "check_authorities",
    "checked_bearer",
    "connect",
    "fair_share",
    "fits_share",
    "has_dot_segments",
    "http_url",
    "listen_at",
    "open_endpoint",
    "open_socket",
    "parse_endpoint",
    "parse_endpoints",
    "parse_http_url",
    "parse_url",
    "post",
    "public_tls",
    "raise_file_limit",
    "resolve_location",
    "split_patterns",
    "trusting_tls",
    "unix_socket_proxy",
    "upgrade_to_tls",
]

_LAZY_EXPORTS = {
    "egress.address_policy": ("ANY_ADDRESS", "AddressPolicy"),
    "egress.upstream": (
        "DirectUpstream",
        "ProxyUpstream",
        "Resolver",
        "ByteStream",
        "SystemResolver",
        "Upstream",
        "upgrade_to_tls",
    ),
    "egress.content_encoding": ("Inflater",),
    "egress.fetch": ("UrlCheck", "FetchLimits", "WebClient", "FetchedPage"),
    "proxy.forward_proxy": ("HostCheck", "ForwardProxy", "ForwardProxyLimits", "ConnectionRecord", "unix_socket_proxy"),
    "egress.post": ("post",),
    "egress.http_request": ("HttpExchange",),
    "egress.host_patterns": ("HostPatterns", "split_patterns"),
    "client.connection": ("HttpConnection",),
    "client.pool": ("HttpPool", "HttpResponse", "SizedStream", "TransportFault"),
    "client.tls": ("NAMING_VARIABLES", "authorities_pem", "check_authorities", "public_tls", "trusting_tls"),
    "endpoints.connect": ("connect", "open_endpoint", "open_socket"),
    "shares": ("ConnectionLimit", "ShareCounter", "fair_share", "fits_share", "raise_file_limit"),
    "egress.urls": ("Url", "as_servers_read", "canonical_host", "has_dot_segments", "parse_url", "resolve_location"),
}
_MODULE_OF_NAME = {name: home for home, names in _LAZY_EXPORTS.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import the client side when it is first used, because a cold start needs only the listening socket."""
    if name not in _MODULE_OF_NAME:
        raise AttributeError(name)
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_MODULE_OF_NAME[name]}"), name)
