"""Topics: messages that the agents of a team publish, stored and streamed (docs/reference/topics.md)."""

from .names import check_name
from .routes import router
from .topics import Topics

__all__ = ["Topics", "check_name", "router"]
