"""Decide which hosts, addresses and ports may be reached: only public ones.

The owner of a name can point it at any address, so the address that is connected to is checked, not only the name.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from ...errors import ToolFailure
from .urls import bracketed

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_V4 = tuple(
    (ipaddress.IPv4Network(network), what)
    for network, what in (
        ("0.0.0.0/8", "this network"),
        ("10.0.0.0/8", "a private network"),
        ("100.64.0.0/10", "a provider's inner network"),
        ("127.0.0.0/8", "this machine itself"),
        ("168.63.129.16/32", "a cloud's metadata service"),
        ("169.254.0.0/16", "link-local, where clouds keep their metadata service"),
        ("172.16.0.0/12", "a private network"),
        ("192.0.0.0/24", "reserved"),
        ("192.0.2.0/24", "reserved for documentation"),
        ("192.31.196.0/24", "reserved"),
        ("192.52.193.0/24", "reserved"),
        ("192.88.99.0/24", "reserved"),
        ("192.168.0.0/16", "a private network"),
        ("192.175.48.0/24", "reserved"),
        ("198.18.0.0/15", "reserved for benchmarks"),
        ("198.51.100.0/24", "reserved for documentation"),
        ("203.0.113.0/24", "reserved for documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
    )
)
_GLOBAL_V6 = ipaddress.IPv6Network("2000::/3")
_V6 = tuple(
    (ipaddress.IPv6Network(network), what)
    for network, what in (
        ("2001::/23", "reserved, or a tunnel"),
        ("2001:db8::/32", "reserved for documentation"),
        ("2620:4f:8000::/48", "reserved"),
        ("3fff::/20", "reserved for documentation"),
    )
)
_MAPPED = ipaddress.IPv6Network("::ffff:0:0/96")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_SIX_TO_FOUR = ipaddress.IPv6Network("2002::/16")
_ISATAP = {0x5EFE, 0x02005EFE}

_INNER_NAMES = ("localhost", "local", "internal", "localdomain", "home.arpa")
"""Names that are never public, and neither are their subdomains."""

WEB_PORTS = frozenset({80, 443})
FIRST_FREE_PORT = 1024
SERVICE_PORTS = frozenset(
    {
        *(1080, 1433, 1521, 1719, 1720, 1723, 2049, 2375, 2376, 2379, 2380, 3128, 3306, 3389, 3659, 4045, 4190, 5060),
        *(5061, 5432, 5900, 5984, 6000, 6379, 6443, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 9042, 9092, 9200),
        *(9300, 10080, 10250, 11211, 27017),
    }
)
"""Ports above 1023 of databases, queues and other services that often accept commands without authentication."""


@dataclass(frozen=True, slots=True)
class AddressPolicy:
    """The rules. `allowed`: networks that may be reached on all ports although they are not public."""

    allowed_networks: tuple[Network, ...] = ()

    def check(self, host: str, port: int) -> None:
        """Check a canonical host and a port, before any DNS look-up. Raises ToolFailure if they may not be reached."""
        if not self.allowed_networks and not _port_is_open(port):
            raise ToolFailure(
                f"port {port} of {host} is not for the web; 80, 443 and most above {FIRST_FREE_PORT - 1} can be used",
                kind="denied",
            )
        literal = literal_address(host)
        if literal is not None:
            self.check_address(host, literal)
        elif not self.allowed_networks and any(host == name or host.endswith(f".{name}") for name in _INNER_NAMES):
            raise ToolFailure(f"{host} is a name of inner networks; only public hosts can be reached", kind="denied")

    def check_address(self, host: str, address: Address) -> None:
        """Raise ToolFailure if an address of `host` may not be reached."""
        what = self.blocked_reason(address)
        if what is not None:
            shown = bracketed(str(address))
            named = shown if str(address) == host else f"{host} leads to {shown}, which"
            raise ToolFailure(f"{named} is {what}; only public hosts can be reached", kind="denied")

    def blocked_reason(self, address: Address) -> str | None:
        """Return why an address may not be reached, or None."""
        if self.allows(address):
            return None
        if isinstance(address, ipaddress.IPv4Address):
            return _reason_in(address, _V4)
        inner = _embedded(address)
        if inner is not None:
            return self.blocked_reason(inner)
        if address not in _GLOBAL_V6:
            return "not public"
        return _reason_in(address, _V6) or self._isatap(address)

    def allows(self, address: Address) -> bool:
        """Whether the address is in an explicitly allowed network."""
        return any(address in network for network in self.allowed_networks if network.version == address.version)

    def _isatap(self, address: ipaddress.IPv6Address) -> str | None:
        tunnelled = (int(address) >> 32) & 0xFFFFFFFF in _ISATAP
        return self.blocked_reason(_last_four(int(address))) if tunnelled else None


def literal_address(host: str) -> Address | None:
    """Return the address if a canonical host is one, or None if it is a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _reason_in(address: Address, table: tuple[tuple[Network, str], ...]) -> str | None:
    return next((what for network, what in table if address in network), None)


def _embedded(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """Return the IPv4 address to which packets for this IPv6 address are translated, or None."""
    if address in _MAPPED or address in _NAT64:
        return _last_four(int(address))
    return _last_four(int(address) >> 80) if address in _SIX_TO_FOUR else None


def _last_four(number: int) -> ipaddress.IPv4Address:
    return ipaddress.IPv4Address(number & 0xFFFFFFFF)


def _port_is_open(port: int) -> bool:
    return port in WEB_PORTS or (port >= FIRST_FREE_PORT and port not in SERVICE_PORTS)


ANY_ADDRESS = AddressPolicy((ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0")))
"""The policy for hosts that the operator has named: all addresses are allowed."""
