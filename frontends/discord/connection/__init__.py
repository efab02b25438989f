"""The connection with Discord: where it is, who connects, how it is kept up, and what its refusals mean."""

from .client import Client
from .errors import ALREADY_ACKNOWLEDGED, by_name, named
from .gateway import Gateway

__all__ = ["ALREADY_ACKNOWLEDGED", "Client", "Gateway", "by_name", "named"]
