"""The agents of teams: their cards, and the work that they give each other (docs/reference/peers.md)."""

from .cards import AgentCards
from .requests import AgentRequests
from .routes import router

__all__ = ["AgentCards", "AgentRequests", "router"]
