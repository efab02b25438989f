"""Which addresses are public, and which only look it."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_common.net.egress.address_policy import SERVICE_PORTS, AddressPolicy
from agent_runtime.errors import ToolFailure

RULES = AddressPolicy()
INNER = (
    *("0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.100.100.200", "100.127.255.255", "127.0.0.1"),  # noqa: S104
    *("127.255.255.255", "168.63.129.16", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.192"),
    *("192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.9"),
    *("224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255"),
)
INNER_6 = (
    *("::", "::1", "fe80::1", "fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1", "100::1", "64:ff9b:1::1"),
    *("2001::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001:10::1", "2001:db8::1", "3fff::1", "5f00::1"),
    *("::ffff:0:8.8.8.8", "::8.8.8.8"),
)
PUBLIC = (
    *("1.1.1.1", "8.8.8.8", "93.184.216.34", "100.63.255.255", "100.128.0.0", "172.15.0.1", "172.32.0.1"),
    *("192.0.1.1", "223.255.255.255", "2606:4700::1111", "2a00:1450::1", "2001:4860:4860::8888", "2400::1"),
    *("::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:0808:0808::1", "2606::5efe:8.8.8.8"),
)


def embeddings(address: str) -> list[str]:
    """The IPv6 addresses that end at an IPv4 one."""
    number = int(ipaddress.IPv4Address(address))
    high, low = f"{number >> 16:x}", f"{number & 0xFFFF:x}"
    return [
        f"::ffff:{address}",
        f"64:ff9b::{address}",
        f"2002:{high}:{low}::1",
        f"2606::5efe:{address}",
        f"2606::200:5efe:{address}",
    ]


@pytest.mark.parametrize("address", [*INNER, *INNER_6, *(form for one in INNER for form in embeddings(one))])
def test_inner_addresses_in_all_their_forms(address: str) -> None:
    assert RULES.blocked_reason(ipaddress.ip_address(address))
    with pytest.raises(ToolFailure, match="only public hosts") as failure:
        RULES.check(str(ipaddress.ip_address(address)), 443)
    assert failure.value.kind == "denied"


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses(address: str) -> None:
    assert RULES.blocked_reason(ipaddress.ip_address(address)) is None
    RULES.check(str(ipaddress.ip_address(address)), 443)


@given(st.ip_addresses())
def test_nothing_that_python_knows_as_private_is_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    if RULES.blocked_reason(address) is None:
        embedded = isinstance(address, ipaddress.IPv6Address) and (address.ipv4_mapped or address.sixtofour)
        nat64 = address in ipaddress.ip_network("64:ff9b::/96")
        assert embedded or nat64 or (address.is_global and not address.is_multicast)


@pytest.mark.parametrize("host", ["localhost", "a.localhost", "metadata.google.internal", "nas.local", "x.home.arpa"])
def test_names_of_inner_networks(host: str) -> None:
    with pytest.raises(ToolFailure, match="inner networks"):
        RULES.check(host, 80)


def test_ports() -> None:
    for port in (80, 443, 1024, 8000, 8080, 8443, 50000):
        RULES.check("example.org", port)
    for port in (1, 22, 25, 53, 79, 81, 110, 143, 445, 993, *SERVICE_PORTS):
        with pytest.raises(ToolFailure, match=f"port {port} "):
            RULES.check("example.org", port)


def test_what_is_allowed_on_wish() -> None:
    rules = AddressPolicy((ipaddress.ip_network("127.0.0.0/8"),))
    rules.check("127.0.0.1", 22)
    rules.check("localhost", 6379)
    for other in ("10.0.0.1", "::1", "169.254.169.254"):
        with pytest.raises(ToolFailure):
            rules.check(other, 80)
    rules.check("::ffff:7f00:1", 80)
