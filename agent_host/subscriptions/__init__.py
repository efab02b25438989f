"""Subscriptions: what is published to a topic comes to the sessions of agents (docs/reference/subscriptions.md)."""

from .routes import router
from .subscriptions import Subscriptions

__all__ = ["Subscriptions", "router"]
