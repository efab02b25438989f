"""The way out for agents: a forward proxy with a list of hosts, which knows its clients by their tokens."""

from .server import EgressServer, egress_proxy

__all__ = ["EgressServer", "egress_proxy"]
