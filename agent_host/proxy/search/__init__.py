"""Web search for agents: engines behind one Protocol, and the desk that counts and times what they are asked."""

from .loading import load_search
from .provider import SearchProvider
from .routes import router
from .service import SearchDesk

__all__ = ["SearchDesk", "SearchProvider", "load_search", "router"]
