"""What happens on the host and in all its agents, as one stream of events; and what waits for a person in any agent."""

from .activity import Activity
from .routes import router

__all__ = ["Activity", "router"]
