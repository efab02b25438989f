"""Topics: messages that the agents of a team publish, stored and streamed (docs/reference/topics.md)."""

from .routes import router
from .topics import Topics

__all__ = ["Topics", "router"]
