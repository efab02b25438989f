"""The hosts that the operator lets a plugin reach: `host` for the web's ports, `host:port` for another one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from agent_common.net import HostPatterns

WEB_PORTS = (80, 443)
_GRANT = re.compile(r"(?:\[(?P<address>[^\[\]]+)\]|(?P<host>[^\[\]:]+))(?::(?P<port>[^:]*))?")
_PORT = re.compile(r"[0-9]{1,5}")
_HIGHEST_PORT = 65535


@dataclass(frozen=True, slots=True)
class GrantedHosts:
    """Host patterns by port. A machine's other services are not granted with its web server, wherever DNS points."""

    by_port: Mapping[int, HostPatterns]

    @classmethod
    def from_grants(cls, grants: Iterable[str]) -> GrantedHosts:
        """Parse `example.org`, `*.example.org`, `*`, `[::1]`, each alone or followed by `:port`. Raises ValueError if
        one is malformed."""
        patterns: dict[int, list[str]] = {}
        for grant in grants:
            pattern, ports = _split(grant)
            for port in ports:
                patterns.setdefault(port, []).append(pattern)
        return cls({port: HostPatterns.from_patterns(each) for port, each in patterns.items()})

    def match(self, host: str, port: int) -> bool:
        """Whether this port of a canonical host may be reached."""
        return port in self.by_port and self.by_port[port].match(host)

    def is_named(self, host: str, port: int) -> bool:
        """Whether a grant names the host itself, and not only a pattern that it matches."""
        return port in self.by_port and host in self.by_port[port].names


def describe_grant(grant: str) -> str:
    """Return a grant for people, with the ports that it means."""
    _, ports = _split(grant)
    return f"{grant} (ports 80 and 443)" if ports == WEB_PORTS else grant


def _split(grant: str) -> tuple[str, tuple[int, ...]]:
    """Return a grant's host pattern, an IPv6 address without brackets, and its ports."""
    parts = _GRANT.fullmatch(grant)
    if parts is None:  # an IPv6 address without brackets, or no host, which the patterns refuse
        return grant, WEB_PORTS
    host = parts["address"] or parts["host"]
    port = parts["port"]
    if port is None:
        return host, WEB_PORTS
    if not _PORT.fullmatch(port) or not 0 < int(port) <= _HIGHEST_PORT:
        raise ValueError(f"{grant!r} has no port from 1 to {_HIGHEST_PORT}; write example.org:8443")
    return host, (int(port),)
