"""The hub's end of links: frames, and what may be asked over them."""

from .caller import LinkRights, Reach
from .connection import Flow, HubConnection
from .operations import OPERATIONS, describe_page
from .socket_link import SocketLink

__all__ = ["OPERATIONS", "Flow", "HubConnection", "LinkRights", "Reach", "SocketLink", "describe_page"]
