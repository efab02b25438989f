"""Web access for agents: a forward proxy with a list of allowed hosts, which identifies its clients by their tokens."""

from .server import EgressServer, egress_proxy

__all__ = ["EgressServer", "egress_proxy"]
