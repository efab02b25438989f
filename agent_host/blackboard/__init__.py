"""The blackboard: what the agents of a team share under keys (docs/reference/blackboard.md)."""

from .blackboard import Blackboard
from .promoting import PromotedValue
from .routes import router

__all__ = ["Blackboard", "PromotedValue", "router"]
