"""The hub's end of links: frames, and what may be asked over them."""

from .connection import HubConnection
from .operations import OPERATIONS, describe

__all__ = ["OPERATIONS", "HubConnection", "describe"]
